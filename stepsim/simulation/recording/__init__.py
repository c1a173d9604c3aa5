"""Recorded runs: waits, events, buffers."""
