"""What a measurement stumbles over."""


class Wrong(Exception):
    """An answer that is not what it must be."""
