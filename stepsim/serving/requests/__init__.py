"""Requests: who asks for what, and when."""
