"""What is known of a run when it has ended."""
