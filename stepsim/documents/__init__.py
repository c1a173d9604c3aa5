"""YAML and JSON documents of any origin: plain data and the line of each value, within limits.

Both readers return JSON types (null, bool, int, float, str, lists, mappings with text keys)
and raise the error class of their caller, with ``file:line:column``, for anything else. Size,
depth and number of values are limited, so that a document of a few bytes costs no more than its
size suggests.
"""

from stepsim.deferred import door

__getattr__, __dir__, __all__ = door(__name__, __file__)
