"""Metrics of a served load, as vLLM's benchmark defines them."""
