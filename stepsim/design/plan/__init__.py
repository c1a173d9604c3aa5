"""Plans: the decisions for a model on a machine, and their files, tables and pictures."""
