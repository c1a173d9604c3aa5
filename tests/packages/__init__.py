"""Distributions, built and checked, and installed into empty environments: `make packages`."""
