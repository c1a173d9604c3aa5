"""The registry: one row per unit, tying its name to a kind and its parameters."""
