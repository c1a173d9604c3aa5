"""Refusing options of an import that say nothing about a trace of its format."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from stepsim.errors import ArgError
from stepsim.trace_io.formats import Format, trace_formats

__all__ = ["TRACE_OPTIONS", "check_options"]

TRACE_OPTIONS = {
    "model": "--model",
    "experts": "--experts",
    "k": "--k",
    "layer": "--layer",
    "step": "--step",
    "column": "--column",
    "layers": "--layers",
    "drop_missing": "--drop-missing",
    "ranks": "--rank",
}
"""Every argument that some format uses and another does not, with its option."""


def check_options(found: Format, path: Path, given: Mapping[str, object]) -> None:
    """Refuse options that are ``given``, thus neither None nor False, and not used by a format.

    What is given besides the `TRACE_OPTIONS` does not matter.

    Raises:
        ArgError: an option has no effect; the message names the formats in which it has one.
    """
    for name, option in TRACE_OPTIONS.items():
        value = given.get(name)  # 0 is given: it is a layer or a step
        if value is None or value is False or name in found.all_options:
            continue
        users = sorted(form.name for form in trace_formats().values() if name in form.all_options)
        raise ArgError(
            f"{path}: {option} ({name}=) is given, but the format {found.name} has no use for it; "
            "leave it out, or name a format that has one with --format (format=): "
            f"{', '.join(users)}"
        )
