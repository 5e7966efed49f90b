"""The local page: clips in, jobs in a queue, the player for what was found."""
