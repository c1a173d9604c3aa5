"""Files as options: a name, and which part of the file is meant, as in ``routing.npz,layer=3``."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from stepsim.errors import ArgError


def file_and_parts(
    option: str, text: str, known: Mapping[str, Callable[[str], Any]]
) -> tuple[Path, dict[str, list[Any]]]:
    """The file, and the values of every known part that follows its name, in order.

    The name ends in front of the first known part, behind which nothing but parts may come. Other
    commas belong to it, and to the names of its folders, unless ``KEY=VALUE`` is all that follows.

    Parameters
    ----------
    option : for messages.
    known : what reads the value of a part; ArgError or ValueError is its refusal.

    Raises
    ------
    ArgError : a part is not known, or its value is refused.
    """
    name, *parts = text.split(",")
    while parts and not (parts[0].partition("=")[0] in known or all(map(_is_part, parts))):
        name = f"{name},{parts.pop(0)}"
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


def _is_part(text: str) -> bool:
    key, equals, value = text.partition("=")
    return bool(equals) and key.isidentifier() and os.sep not in value
