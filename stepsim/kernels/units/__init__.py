"""What operators become in the engine: a step function and, beside it, its declaration."""
