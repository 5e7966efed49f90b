"""Pure metric functions, protocols, input-free baselines and tables."""
