"""One module a change, in their order."""
