"""Layers on several chips: how they are divided, and what the chips send to each other."""
