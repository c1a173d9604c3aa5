"""Recorded runs of serving: replayed to the ns, and compared with real GPUs."""
