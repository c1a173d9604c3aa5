"""Plans: what was decided for a model on a machine, and what is read from it."""
