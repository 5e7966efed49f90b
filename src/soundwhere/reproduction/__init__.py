"""The whole paper on one page: its tables and figures again, ours beside the published ones, with verdicts."""
