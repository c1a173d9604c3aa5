"""Reports and pages of a reproduction."""
