"""Programs, under construction and finished: sizes, bindings, identity."""
