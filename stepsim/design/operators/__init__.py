"""Operator graphs: what a model computes, as loop nests over named dims."""
