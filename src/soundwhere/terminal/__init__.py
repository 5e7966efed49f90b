"""What do people type and see? Options, messages, progress and tables; torch is not imported here."""
