"""Real-duet and wide-duet again, from the official downloads of their sources and the lists that ship."""
