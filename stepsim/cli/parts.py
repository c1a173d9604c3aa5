"""Files as options: a name, and which part of the file is meant, as in ``routing.npz,layer=3``."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from stepsim.errors import ArgError
from stepsim.paths import exists


def file_and_parts(
    option: str, text: str, known: Mapping[str, Callable[[str], Any]]
) -> tuple[Path, dict[str, list[Any]]]:
    """The file, and the values of every known part that follows its name, in order.

    Of a file that exists, the name is the text in front of known parts, or all of it. Of one that
    does not, it ends in front of the first known part, behind which nothing but parts may come.
    Other commas belong to it, and to the names of its folders, unless ``KEY=VALUE`` is all that
    follows.

    Parameters
    ----------
    option : for messages.
    known : what reads the value of a part; ArgError or ValueError is its refusal.

    Raises
    ------
    ArgError : a part is not known, its value is refused, or there are files for several readings.
    """
    name, parts = _existing(option, text, known) or _named(text, known)
    found: dict[str, list[Any]] = {}
    for part in parts:
        key, equals, value = part.partition("=")
        if not equals or key not in known:
            raise ArgError(
                f"{option}: expected {' or '.join(f'{one}=' for one in known)} after the file, "
                f"found '{part}'"
            )
        try:
            found.setdefault(key, []).append(known[key](value))
        except ArgError:
            raise
        except ValueError:
            raise ArgError(f"{option}: {key}: expected a whole number, found '{value}'") from None
    return Path(name), found


def single(option: str, parts: Mapping[str, list[Any]]) -> dict[str, Any]:
    """The parts, each of which may be given once.

    Raises
    ------
    ArgError : one is given several times.
    """
    for key, values in parts.items():
        if len(values) > 1:
            raise ArgError(f"{option}: {key} is given {len(values)} times; expected it once")
    return {key: value for key, (value,) in parts.items()}


def _existing(option: str, text: str, known: Mapping[str, Any]) -> tuple[str, list[str]] | None:
    """The name of a file that exists, and the parts after it; None if there is no such file."""
    pieces = text.split(",")
    found: list[tuple[str, list[str]]] = []
    for count in range(len(pieces), 0, -1):
        name, parts = ",".join(pieces[:count]), pieces[count:]
        if any("=" not in part or part.partition("=")[0] not in known for part in parts):
            break
        if name and _is_there(name):
            found.append((name, parts))
    if len(found) > 1:
        readings = [
            f"'{name}'" + (f" with {', '.join(parts)}" if parts else "") for name, parts in found
        ]
        raise ArgError(
            f"{option}: '{text}' may be {' or '.join(readings)}, and these files exist; rename "
            "one of them"
        )
    return found[0] if found else None


def _is_there(name: str) -> bool:
    try:
        return exists(Path(name), ArgError)
    except ArgError:  # longer than names can be, or in a folder that may not be read
        return False


def _named(text: str, known: Mapping[str, Any]) -> tuple[str, list[str]]:
    """The name of a file that need not exist, and the parts after it."""
    name, *parts = text.split(",")
    while parts and not (parts[0].partition("=")[0] in known or all(map(_is_part, parts))):
        name = f"{name},{parts.pop(0)}"
    return name, parts


def _is_part(text: str) -> bool:
    key, equals, value = text.partition("=")
    return bool(equals) and key.isidentifier() and os.sep not in value
