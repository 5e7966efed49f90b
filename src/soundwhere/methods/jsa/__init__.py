"""JSA, also called Slot-Attn: slots that compete for cells of a picture and moments of a sound, and must agree.

Kim, Song, Park, Kim and Kwak, Improving Sound Source Localization with Joint Slot Attention on Image and Audio, CVPR
2025 (github.com/InhoKim429/JSA). Two learned slots, shared by both modalities: the first is the target, which is
contrasted and localised, the second takes the rest. `slots` has the attention and the decoders, `losses` the four
losses, `model` the network.

Deviations: several sources are not defined; both slots' maps are given, of which the second is meant to be off target.
Positions of the decoders are stretched where there are not 7 x 7 cells or 16 moments. Tokens are masked each with the
configured chance. Spectrograms are blanked by bands and spans of up to a sixth, not of ten rows.
"""
