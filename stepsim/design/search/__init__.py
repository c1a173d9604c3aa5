"""From a model to its plan: orders, fits and FIFO depths are chosen by simulation."""
