"""AVGN (Mo and Tian, CVPR 2023): class tokens group what is seen and heard; weakly supervised."""
