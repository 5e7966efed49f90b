"""Data sets under one schema, the made-up world, and the mixtures training draws from them."""
