"""Schedulers: which tokens of which requests the next step computes, and their blocks."""
