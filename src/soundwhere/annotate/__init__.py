"""The mask annotation tool."""
