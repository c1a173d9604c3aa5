"""Commands and options of earlier releases: each is refused with its replacement."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from stepsim.errors import ArgError

_COMMANDS: Final = {
    "tune": "`stepsim sweep tune`",
    "pareto": "`stepsim sweep pareto`",
    "best": "`stepsim sweep best`",
    "query": "`stepsim sweep query`",
    "validate": "`stepsim reproduce validation`, whose --out is the folder of validation.md",
}

_OF_RUN: Final = {
    "--bins": "is not an option any more: the table has 100 rows, and Result.timeline() as many as "
    "you say; leave it out",
    "--span": "is now part of --perfetto, as in --perfetto FILE,span=1000:2000",
    "--stream": "is now part of --perfetto, as in --perfetto FILE,stream=silu",
    "--hardware": "is now --machine and --set, as in --level hardware --machine hdl-fair",
    "--ensemble-seed": "is now part of --ensemble, as in --ensemble 32,seed=7",
    "--disturb": "is now part of --ensemble, as in --ensemble 32,fifo.depth=0:2",
}

_OF_DATA: Final = {
    "--layer": "is now part of --routing, as in --routing routing.npz,layer=3",
    "--step": "is now part of --routing, as in --routing routing.npz,step=1",
    "--window": "is now part of --routing, as in --routing routing.npz,window=1",
    "--kv-column": "is now part of --kv-lengths, as in --kv-lengths requests.csv,column=context",
    "--kv-step": "is now part of --kv-lengths, as in --kv-lengths steps.parquet,step=40",
    "--kv-window": "is now part of --kv-lengths, as in --kv-lengths lengths.npy,window=2",
    "--new-column": "is now part of --new-tokens, as in --new-tokens new.csv,column=tokens",
}

_OF_SWEEPS: Final = "is now an option of `stepsim sweep compare`, which compares sweeps"

_TO_RUN: Final = "a sweep is now run by `stepsim sweep run SPEC.yaml`"

_OPTIONS: Final = {
    "run": _OF_RUN | _OF_DATA,
    **dict.fromkeys(("inspect", "graph", "why", "place"), _OF_DATA),
    "size": _OF_DATA
    | {"--counting": "is not an option any more: depths do not depend on it; leave it out"}
    | dict.fromkeys(
        ("--sizing", "--fifo", "--max-slowdown", "--shrink", "--no-shrink"),
        "is not an option any more: `stepsim size` looks for the depths itself; leave it out",
    ),
    "serve": {
        "--dp": "is not an option any more: replicas divide the requests; give --replicas",
        "--pp-micro-batches": "is not an option any more: a step has one batch; leave it out",
    },
    "compare": dict.fromkeys(
        ("--baseline", "--by", "--where", "--cost", "--allow-missing"), _OF_SWEEPS
    ),
    "sweep": dict.fromkeys(
        ("--out", "--jobs", "--backend", "--address", "--resume", "--dry-run", "--json"), _TO_RUN
    ),
}
"""What replaced an option, by the command or the group, and the option."""


def check_moved_command(group: str, arguments: Sequence[str]) -> None:
    """Refuse a command that was renamed.

    Parameters
    ----------
    group : the words in front of the command, as ``stepsim sweep``.
    arguments : the command and its arguments.

    Raises
    ------
    ArgError : names the new command.
    """
    name = arguments[0] if arguments else ""
    if group == "stepsim" and name in _COMMANDS:
        raise ArgError(f"stepsim {name}: the command is now {_COMMANDS[name]}")
    if group == "stepsim sweep" and Path(name).suffix in (".yaml", ".yml", ".json"):
        raise ArgError(f"stepsim sweep {name}: a sweep is now run by `stepsim sweep run {name}`")


def moved_option(path: str, option: str) -> str | None:
    """The message for an option of an earlier release; None if it was never an option.

    ``path`` is the command, as ``stepsim run moe``. Options of ``stepsim sweep`` are those of the
    group, not of the commands in it.
    """
    _, group, *command = [*path.split(), ""]
    if group == "sweep" and any(command):
        return None
    new = _OPTIONS.get(group, {}).get(option)
    return None if new is None else f"{path} {option}: {new}"
