"""Dataflow graphs: kernels with typed ports, and the streams between them."""
