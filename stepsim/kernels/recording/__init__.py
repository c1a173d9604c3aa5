"""The journal of a run: every wait of every unit."""
