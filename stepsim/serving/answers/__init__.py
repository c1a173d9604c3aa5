"""Answers from services: where time went, what other settings would change, the bearable rate."""
