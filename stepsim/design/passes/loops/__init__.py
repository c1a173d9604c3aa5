"""Tiles, order and unrolling of loops."""
