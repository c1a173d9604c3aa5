"""A program on a machine: laid out, changed, and run."""
