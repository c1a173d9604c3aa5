"""What a sweep runs: its specification, checked."""
