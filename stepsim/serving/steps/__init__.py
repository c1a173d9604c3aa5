"""Step models: how long the step of a batch takes."""
