"""Mutation testing: do the tests notice when the code computes something else?

``python -m tests.mutation units`` changes one operator, constant or statement of
``stepsim/kernels/units`` at a time, runs the tests that stand for it, and lists the changes that no
test noticed.
"""

CHOSEN = "not slow and not long and not recorded and not torch"
"""Which tests notice a change: those of `make test`."""
