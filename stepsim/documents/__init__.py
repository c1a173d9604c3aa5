"""YAML and JSON documents of any origin: plain data and the line of each value, within limits.

Both readers give what JSON can say (null, bool, int, float, str, lists, mappings with text keys)
and raise the error class of their caller, with ``file:line:column``, for everything else. Size,
depth and number of values are limited, so that a document of a few bytes costs no more than its
size suggests.
"""

from stepsim.documents.json_text import load_json, parse_json
from stepsim.documents.reading import MOST_DEEP, Document
from stepsim.documents.yaml_text import load_yaml, parse_yaml, parse_yaml_value

__all__ = [
    "MOST_DEEP",
    "Document",
    "load_json",
    "load_yaml",
    "parse_json",
    "parse_yaml",
    "parse_yaml_value",
]
