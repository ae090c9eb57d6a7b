"""A run is its journal of events."""
