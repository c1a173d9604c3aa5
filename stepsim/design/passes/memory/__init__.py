"""Layouts off chip, buffers on chip, and their placement on a device."""
