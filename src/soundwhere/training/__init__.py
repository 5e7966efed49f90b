"""How is it trained? One loop for every method, checkpoints, exact resume."""
