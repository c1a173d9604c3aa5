"""Many runs of one image in one call of the engine."""
