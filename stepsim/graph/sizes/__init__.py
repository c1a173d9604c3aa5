"""Sizes of streams and tiles: dims, shapes and the formulas for them."""
