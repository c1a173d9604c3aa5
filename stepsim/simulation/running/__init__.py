"""One run: prepare, lay out, execute, collect."""
