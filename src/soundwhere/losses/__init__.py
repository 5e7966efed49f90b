"""Differentiable thresholding and the contrastive losses built on it."""
