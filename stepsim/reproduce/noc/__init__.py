"""Recorded traffic on networks: replayed to the digit, and compared with silicon and routers."""
