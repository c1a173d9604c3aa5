"""Depths of FIFOs by name in a YAML file, with the program and machine they are for."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import stepsim.documents
from stepsim._version import MODEL_VERSION, __version__
from stepsim.arguments import is_whole, shown
from stepsim.atomic import replacing
from stepsim.deferred import deferred
from stepsim.errors import ArgError
from stepsim.graph import FIFO_DEPTH, Wiring, fingerprint
from stepsim.machine import Machine

if TYPE_CHECKING:
    import yaml
else:
    yaml = deferred("yaml")

_WHAT = "FIFO depths"

_KEYS = frozenset(
    {
        "cycles", "depths", "fifo_bytes", "fifo_slots", "machine", "machine_hash",
        "model_version", "program", "program_fifo_depth", "program_hash", "proved", "simulations",
        "simulations_before", "slowdown", "slowdown_bound", "stepsim_version", "unbounded_cycles",
    }
)  # fmt: skip

_HEAD = """\
# FIFO depths in tokens, for fifo_depth= of stepsim.simulate and --fifo-depth of `stepsim run`.
# FIFOs that are not named keep their depth; null is an unbounded FIFO. Without program_hash the
# depths are taken for any program that has these FIFOs.
"""


_UNTIMED = frozenset({"name", "costs", "fifo"})
"""Parts of a machine that leave the times of runs with these depths as they are."""


@dataclass(frozen=True, slots=True)
class SizedFor:
    """The machine that depths in a file were found for: its name and `machine_hash`."""

    path: str
    machine: str
    digest: str

    def note(self, machine: Machine) -> str:
        """A remark on a run on another machine; empty on the machine they are for."""
        if self.digest == machine_hash(machine):
            return ""
        other = self.machine if self.machine != machine.name else f"another {self.machine}"
        return (
            f"the FIFO depths of {self.path} were found for machine {other}; on {machine.name} "
            "their cycles are not guaranteed, and the run may be slower or deadlock. Size the "
            "FIFOs again for it"
        )


def machine_hash(machine: Machine) -> str:
    """SHA-256 of what the times of a program with given FIFO depths depend on."""
    timed = {key: value for key, value in machine.to_dict().items() if key not in _UNTIMED}
    return hashlib.sha256(json.dumps(timed, sort_keys=True).encode()).hexdigest()


def write_depths(
    path: str | os.PathLike[str], about: Mapping[str, Any], depths: Mapping[str, int | None]
) -> None:
    """Write depths by name of a FIFO, with the program and machine they are for.

    Raises
    ------
    OutputError
        The file cannot be written.
    """
    with replacing(path) as (part,):
        part.write_text(depths_text(about, depths), encoding="utf-8")


def depths_text(about: Mapping[str, Any], depths: Mapping[str, int | None]) -> str:
    """The text of such a file."""
    whole = {
        **about,
        "stepsim_version": __version__,
        "model_version": str(MODEL_VERSION),
        "depths": dict(depths),
    }
    return _HEAD + yaml.safe_dump(whole, sort_keys=False, allow_unicode=True)


def read_depths(
    path: str | os.PathLike[str], wiring: Wiring, program_hash: str
) -> tuple[dict[str, int | None], SizedFor | None]:
    """Depths by name of a FIFO, from a file for this program, and the machine that they are for.

    Raises
    ------
    ArgError
        The file cannot be read, is for another program (one that differs in the default depth alone
        is the same where the file names all FIFOs that have it), names a FIFO that the program does
        not have, or has an invalid depth; the message has the line.
    """
    where = f"{_WHAT} {os.fspath(path)}"
    cure = "FifoSizes.save and `stepsim size` write such files."
    document = stepsim.documents.load_yaml(Path(path), _WHAT, ArgError, cure)
    data, lines = document.data, document.lines
    if not isinstance(data, Mapping) or not isinstance(data.get("depths"), Mapping):
        raise ArgError(
            f"{where}: expected the key 'depths' with lines 'name: depth', one for each FIFO. "
            f"{cure}"
        )
    for key in data:
        if key not in _KEYS:
            near = get_close_matches(key, _KEYS, 1)
            hint = f"; did you mean '{near[0]}'?" if near else "."
            raise ArgError(
                f"{where}, line {lines[key]}: unknown key '{key}'{hint} Depths belong "
                "under 'depths'"
            )
    _check_program(where, data, lines, wiring, program_hash)
    known = {fifo.name for fifo in wiring.fifos}
    found: dict[str, int | None] = {}
    problems = []
    for name, depth in data["depths"].items():
        place = f"line {lines[f'depths.{name}']}"
        if name not in known:
            problems.append(f"{place}: the program has no FIFO '{name}'{_near(name, known)}")
        elif depth is not None and not (is_whole(depth) and FIFO_DEPTH.holds(depth)):
            problems.append(f"{place}: {FIFO_DEPTH.refusal(f'the depth of {name!r}', depth)}")
        else:
            found[name] = depth
    if problems:
        count = f"{len(problems)} wrong lines; " if len(problems) > 1 else ""
        raise ArgError(
            f"{where}, {problems[0]}. {count}program '{wiring.program.name}' has {len(known)} "
            "FIFOs, whose names are in the column 'name' of Result.fifos"
        )
    if "machine_hash" not in data:
        return found, None
    return found, SizedFor(os.fspath(path), str(data.get("machine")), str(data["machine_hash"]))


def _near(name: str, known: set[str]) -> str:
    near = get_close_matches(name, known, 3)
    return f" (near: {', '.join(near)})" if near else ""


def _with_default_of(data: Mapping[str, Any], wiring: Wiring) -> str | None:
    """The hash of the program with the default depth of the one in the file.

    None where the default matters: a FIFO without a depth of its own is not named.
    """
    unnamed = any(fifo.depth is None and fifo.name not in data["depths"] for fifo in wiring.fifos)
    if unnamed or "program_fifo_depth" not in data:
        return None
    return fingerprint(wiring.program, fifo_depth=data["program_fifo_depth"])


def _check_program(
    where: str,
    data: Mapping[str, Any],
    lines: Mapping[str, int],
    wiring: Wiring,
    program_hash: str,
) -> None:
    found = data.get("program_hash")
    if found is None or found == program_hash or found == _with_default_of(data, wiring):
        return
    raise ArgError(
        f"{where}, line {lines['program_hash']}: the depths are for program "
        f"{shown(data.get('program'))} with the hash {str(found)[:12]}, found program "
        f"'{wiring.program.name}' with the hash {program_hash[:12]}: other parameters, shapes or "
        "operators. Size its FIFOs again (`stepsim size`, or st.size_fifos), or delete the line "
        "program_hash to take the depths as they are"
    )
