"""NoPrior: objects that sound are identified one after the other, without being told how many there are.

Kim, Um, Lee and Kim, Learning to Visually Localize Sound Sources from Mixtures without Prior Source Knowledge, CVPR
2024 (github.com/VisualAIKHU/NoPrior_MultiSSL). `identification` is the iterative part, `model` the network and what it
minimises.

Deviations: there is no optical flow, so the attention that it guides is even (`flow = "still"`: what the published
network computes when the flow is the same everywhere, as it is of a photo) or left out (`flow = "none"`). A frozen
visual encoder is frozen whole: published, its BatchNorm statistics move. At test the mixture is heard, not the mean of
its sounds' spectrograms, for which the sounds would have to be known apart. A scene in which nothing is found has empty
maps; the published test leaves it out.
"""
