"""The engine at work: images that are run, one at a time and in batches."""
