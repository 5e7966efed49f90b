"""NoPrior (Kim et al., CVPR 2024): objects are identified one after the other, without being told how many there are."""
