"""Operators of off-chip and on-chip memory (STeP paper, tables 3 and 4)."""
