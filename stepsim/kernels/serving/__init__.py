"""A service under load: requests, block pools, schedulers and the loop of steps."""
