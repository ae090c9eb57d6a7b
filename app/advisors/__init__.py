"""The habits: one advisor, one file."""
