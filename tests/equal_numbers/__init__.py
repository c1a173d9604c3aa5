"""The same numbers with every compiler, processor and version of a library."""
