"""What are networks made of? Encoders, similarity, norms."""
