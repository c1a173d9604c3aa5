"""Workloads at the level of hardware units."""
