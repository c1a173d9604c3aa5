"""Refusing import options that do not apply to the format of the trace."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from stepsim.errors import ArgError
from stepsim.trace_io.formats import Format, trace_formats

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
"""Every argument that applies to some formats only, with its option."""


def check_options(found: Format, path: Path, given: Mapping[str, object]) -> None:
    """Refuse options that are ``given`` (neither None nor False) and not used by a format.

    Entries other than the `TRACE_OPTIONS` are ignored.

    Raises:
        ArgError: an option has no effect; the message names the formats in which it has one.
    """
    for name, option in TRACE_OPTIONS.items():
        value = given.get(name)  # 0 counts as given: it is a layer or a step
        if value is None or value is False or name in found.all_options:
            continue
        users = sorted(form.name for form in trace_formats().values() if name in form.all_options)
        raise ArgError(
            f"{path}: {option} ({name}=) is given, but the format {found.name} does not use it; "
            "leave it out, or name a format that does with --format (format=): "
            f"{', '.join(users)}"
        )
