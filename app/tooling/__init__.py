"""The hands: from a function to an executed call."""
