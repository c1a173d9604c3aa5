"""Reproduction of the StreamTensor paper's tables and figures."""
