"""Operator graphs of PyTorch modules."""
