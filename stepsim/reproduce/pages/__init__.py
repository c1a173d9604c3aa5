"""Reports and pages of what was reproduced."""
