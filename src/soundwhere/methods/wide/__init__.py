"""SCAV that hears recordings it has never heard: `scav-wide`.

The paper's structure (stage 1's similarity, Algorithm 1, decoupled branches) with an ear that knows AudioSet, one
embedding for each moment and band of the sound, stage 1 trained on mixtures of no to three sounds, and maps with edges.
"""
