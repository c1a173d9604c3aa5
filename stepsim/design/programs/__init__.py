"""From a dataflow graph to programs of the language."""
