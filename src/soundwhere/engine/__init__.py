"""Checkpoints, the training loop and evaluation: plain torch, readable top to bottom."""
