"""What does it cost? Commands and loops, as ratios within one run."""
