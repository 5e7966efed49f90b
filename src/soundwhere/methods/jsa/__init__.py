"""JSA, also Slot-Attn: slots that look at picture and sound alike (Kim et al.)."""
