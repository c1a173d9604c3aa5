"""Detecting the format of a trace from its content; file names are not considered.

Each format states what it recognizes.
"""

from __future__ import annotations

from pathlib import Path

from stepsim.data import locate
from stepsim.errors import StepSimError, TraceError
from stepsim.trace_io.formats import Content, Format, format_names, trace_formats
from stepsim.trace_io.formats.parquet import depth
from stepsim.typed import typed


@typed
def detect_trace_format(path: Path) -> str:
    """The name of the format of a file or data set, a key of `trace_formats`.

    Raises:
        TraceError: the file is unreadable, holds the steps of a replay, or fits no format.
    """
    path = locate(path)
    content = Content(path)
    reason = None
    if not path.is_dir():
        _ = content.kind  # refuses files that no format can use
    for found in trace_formats().values():
        try:
            if _recognizes(found, content):
                return found.name
        except TraceError as error:
            reason = reason or error
    if path.is_dir():
        reason = reason or TraceError(f"{path}: is a folder, expected a file; name one file in it")
    raise reason or TraceError(
        f"{path}: the format cannot be detected from the content, name it with --format: expected "
        f"one of {format_names()}"
    )


def is_routing_table(path: Path) -> bool:
    """Whether :func:`stepsim.trace_io.read_routing` reads the file without an import.

    Raises:
        TraceError: as `detect_trace_format`.
    """
    found = detect_trace_format(path)
    if found != "parquet":
        return found == "numpy"
    schema = Content(locate(path)).schema or ()
    return any(field.name == "experts" and depth(field.type) == 1 for field in schema)


def _recognizes(found: Format, content: Content) -> bool:
    try:
        return bool(found.recognizes(content))
    except StepSimError:
        raise
    except Exception as error:
        if found.package is None:
            raise
        raise found.failed(content.path, error) from error
