"""AVGN: one token for each class gathers what belongs to it, from a picture and from a mixture. Weakly supervised.

Mo and Tian, Audio-Visual Grouping Network for Sound Localization from Mixtures, CVPR 2023 (github.com/stoneMo/AVGN).
Labels are read in training and at test: the map of a source is that of its labelled class. `grouping` has the tokens,
`model` the network and what it minimises.

Deviations: the partner whose sound is added comes from the same batch, the next clip of another class; pictures are
squashed, then cropped. Without labels the classes that are heard most surely are localised. One block of the published
network that is built and never used is left out.
"""
