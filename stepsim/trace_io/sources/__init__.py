"""Files as the readers of traces see them: NumPy arrays, Arrow tables, text, JSON records."""
