"""The tables and figures of the StreamTensor paper again."""
