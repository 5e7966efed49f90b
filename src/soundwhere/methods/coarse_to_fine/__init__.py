"""CoarseToFine: a class vector of each modality for every class, brought together class by class. Weakly supervised.

Qian, Hu, Dinkel, Wu, Xu and Lin, Multiple Sound Sources Localization from Coarse to Fine, ECCV 2020
(github.com/shvdiwnkozbw/Multi-Source-Sound-Localization, folder `new`). Stage 1 learns whether sound and picture belong
together and which classes both show; stage 2 also aligns the vectors of classes. `classes` has the pure parts, `model`
the network, `stages` what is trained.

Deviations: classes and labels are those of the clips (published: seven coarse classes of AudioSet, guessed by taggers
for each modality); sounds of 3 s are repeated to 10 s. With labels the maps are those of the labelled classes; without,
of the classes that are heard most surely. One map alone, without labels, is the published one of the whole picture.
"""
