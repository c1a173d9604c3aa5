"""Compiling, linking, storing and loading the kernels."""
