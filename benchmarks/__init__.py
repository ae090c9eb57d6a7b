"""Measurements and trials that are no tests: they take long, or their result is a number."""
