"""Layers on several chips: collectives, rows that change chips, and layers that chips divide."""
