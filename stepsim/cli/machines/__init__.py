"""Commands about machines, and about parts of them alone."""
