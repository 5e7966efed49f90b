"""The `soundwhere` command: one file per sub-command. torch is imported inside commands, never for --help."""
