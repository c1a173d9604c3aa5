"""A guard for users' programs in their own test suites: the pytest plugin of stepsim.

PYTEST_DONT_REWRITE: nothing here is an assertion of a test.
"""

from stepsim.deferred import door

__getattr__, __dir__, __all__ = door(__name__, __file__)
