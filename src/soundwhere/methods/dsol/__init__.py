"""DSOL: things that sound alone are clustered, and the clusters then tell apart what sounds in mixtures.

Hu, Qian, Jiang, Tan, Wen, Ding, Lin and Dou, Discriminative Sounding Objects Localization via Self-supervised
Audiovisual Matching, NeurIPS 2020 (github.com/DTaoo/Discriminative-Sounding-Objects-Localization). Stage 1, on single
clips, alternates: localise what sounds, and classify clips by the cluster of what was localised. Stage 2, on mixtures,
learns from a dictionary of the clusters' features and a classifier of sounds that stays as it is. `objects` has the
pure parts, `clustering` k-means, `model` the network, `stages` what is trained.

Labels are never trained on. At test, as published, the true classes choose the maps: a cluster stands for the class
that most of its training clips are of, which is found out once, before stage 2. Without labels the clusters that are
heard most surely are localised.

Deviations: a clip's pseudo-label is the centre nearest to its feature when it is trained on, not when centres were
made; Adam begins anew whenever localising and classifying take turns; a wrong picture is that of the next scene of the
batch; the factor and the offset of object maps start at 1 and 0.
"""
