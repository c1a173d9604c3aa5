"""Results from the final state of a run: totals, tables, the reason of a failure."""
