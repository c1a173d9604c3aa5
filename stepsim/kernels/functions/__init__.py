"""Functions that map-like units apply: their shapes and costs inside the engine."""
