"""Layouts off chip, buffers on chip, and where both lie on a device."""
