"""Functions that return a stream for every element (STeP paper, table 6)."""
