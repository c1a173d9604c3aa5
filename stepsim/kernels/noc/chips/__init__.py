"""Chips on one network: messages over links that take one at a time, and collectives."""
