"""The `soundwhere` command: one file or folder per sub-command. torch is imported inside commands, never for --help."""
