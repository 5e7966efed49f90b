"""Encoders, similarity, prior and decouplers, and the methods assembled from them."""
