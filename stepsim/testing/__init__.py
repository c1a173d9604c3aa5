"""A guard for users' programs in their own test suites: the pytest plugin of stepsim.

PYTEST_DONT_REWRITE: nothing here is an assertion of a test.
"""

from stepsim.deferred import names_of

__all__ = ["METRICS", "Cycles", "CyclesCheckFailed"]

__getattr__ = names_of(
    __name__, {"guard": ("Cycles", "CyclesCheckFailed"), "entries": ("METRICS",)}
)
