"""The benchmarks of the field, one reader each, as lists of scenes with their truth. Start at `catalogue`."""
