"""Memory models: when an access to off-chip memory is complete."""
