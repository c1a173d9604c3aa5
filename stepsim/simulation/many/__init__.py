"""One program in many runs, as tables."""
