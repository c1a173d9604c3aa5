"""Map, accumulations and scans (STeP paper, table 6)."""
