"""Additional data of recorded runs: waits, events, decisions."""
