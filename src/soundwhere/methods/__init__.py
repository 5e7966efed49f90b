"""Whose answer is it? A method is a network, a configuration, stages to train, and an answer."""
