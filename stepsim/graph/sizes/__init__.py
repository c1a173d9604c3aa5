"""Sizes of streams and tiles: dims, shapes and the formulas they are made of."""
