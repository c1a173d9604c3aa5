"""Disturbed runs: how far a number of cycles can be trusted."""
