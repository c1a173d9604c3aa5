"""Ensembles of programs at the level of tiles."""
