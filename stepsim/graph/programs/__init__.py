"""Programs under construction and finished ones: sizes, bindings, identity."""
