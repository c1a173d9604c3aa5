"""Routing and merging operators (STeP paper, table 5)."""
