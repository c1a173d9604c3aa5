"""Networks: when transfers that share links arrive."""
