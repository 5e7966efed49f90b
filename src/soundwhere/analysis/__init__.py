"""The paper's analyses, re-run."""
