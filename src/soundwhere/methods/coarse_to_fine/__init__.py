"""CoarseToFine (Qian et al., ECCV 2020): class vectors of both modalities are aligned; weakly supervised."""
