"""The door: only here HTTP exists."""
