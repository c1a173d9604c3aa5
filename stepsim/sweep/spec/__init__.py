"""The specification of a sweep, and its checks."""
