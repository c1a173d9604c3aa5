"""Passes from an operator graph to groups of kernels."""
