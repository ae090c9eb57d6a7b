"""Soaking a gateway process: a thousand open streams for minutes, then ten thousand callers who hang up."""
