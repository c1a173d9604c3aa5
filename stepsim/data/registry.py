"""The table of data sets: names, addresses, sizes, digests, sources and licenses."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from stepsim.deferred import deferred
from stepsim.errors import ArgError
from stepsim.typed import typed

if TYPE_CHECKING:
    import difflib
    import tomllib
    from importlib import resources
else:
    difflib = deferred("difflib")
    resources = deferred("importlib.resources")
    tomllib = deferred("tomllib")


@dataclass(frozen=True, slots=True)
class Dataset:
    """A published file.

    Attributes
    ----------
    name : group and name, ``step/qwen-b64``.
    about : what it holds, in a few words.
    address : where it is published.
    file : its path below the folder ``traces`` of the data folder, and on a mirror.
    bytes : its size.
    sha256 : its digest, 64 hexadecimal digits.
    source, license : of its group.
    """

    name: str
    about: str
    address: str
    file: str
    bytes: int
    sha256: str
    source: str
    license: str


@cache
def datasets() -> dict[str, Dataset]:
    """All data sets by name, in the order of the table."""
    text = resources.files("stepsim.data").joinpath("registry.toml").read_text(encoding="utf-8")
    return {
        f"{group}/{name}": Dataset(
            f"{group}/{name}", entry["about"], f"{origin['address']}/{entry['path']}",
            entry["file"], entry["bytes"], entry["sha256"], origin["source"], origin["license"],
        )
        for group, origin in tomllib.loads(text).items()
        for name, entry in origin["files"].items()
    }  # fmt: skip


def in_known_group(name: str) -> bool:
    """Whether a text has the form ``group/name`` with the group of a data set."""
    group, slash, rest = name.partition("/")
    return bool(slash and rest) and "/" not in rest and group in _groups()


def find(name: str) -> Dataset:
    """The data set of a name.

    Raises
    ------
    ArgError : no data set has this name; the message has the nearest name.
    """
    known = datasets()
    if name in known:
        return known[name]

    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    raise ArgError(
        f"{name}: is not the name of a data set{hint} All names are listed by: stepsim data list"
    )


@typed
def choose(names: Iterable[str]) -> list[Dataset]:
    """The data sets of names, of whole groups, or of ``all``; each once, in the order of the table.

    Raises
    ------
    ArgError : a name is not known, or no name is given.
    """
    wanted: set[str] = set()
    for name in names:
        members = {d for d in datasets() if name in ("all", d.partition("/")[0])}
        wanted |= members or {find(name).name}
    if not wanted:
        groups = ", ".join(_groups())
        raise ArgError(
            f"no data set is named; expected names of `stepsim data list`, a group ({groups}), "
            "or all"
        )
    return [dataset for name, dataset in datasets().items() if name in wanted]


def _groups() -> list[str]:
    return list(dict.fromkeys(name.partition("/")[0] for name in datasets()))
