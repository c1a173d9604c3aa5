"""Where the numbers of a machine come from that can be bought, and what is not known of it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from stepsim.errors import MachineError, did_you_mean
from stepsim.machine.loading import load_machine
from stepsim.machine.model import Machine
from stepsim.machine.presets import PUBLIC_MACHINES
from stepsim.typed import typed

_WIDTH = 100


class Provenance(NamedTuple):
    """What the numbers of a machine rest on.

    Attributes
    ----------
    sources : by dotted key, the document that states a value, and how the value follows from it.
    assumptions : by dotted key, why a value was taken that no public document states.
    not_public : what no public document states, one sentence each.
    left_out : what is public and the description of a machine cannot say.
    """

    sources: Mapping[str, str]
    assumptions: Mapping[str, str]
    not_public: tuple[str, ...]
    left_out: tuple[str, ...]


@typed
def provenance(machine: str) -> Provenance:
    """Get the sources of a machine that can be bought, and the list of what is not public of it.

    Parameters
    ----------
    machine : name of the machine, such as ``"wormhole"``.

    Raises
    ------
    MachineError : no such machine, or one of a paper, whose description names the paper.
    """
    record = PUBLIC_MACHINES.get(machine)
    if record is None:
        raise MachineError(
            f"machine '{machine}' has no list of sources{did_you_mean(machine, PUBLIC_MACHINES)} "
            f"Machines with one: {', '.join(sorted(PUBLIC_MACHINES))}"
        )
    values: Mapping[str, Mapping[str, Any]] = record["values"]
    return Provenance(
        {key: one["source"] for key, one in values.items() if "source" in one},
        {key: one["assumed"] for key, one in values.items() if "assumed" in one},
        tuple(record["not_public"]),
        tuple(record["left_out"]),
    )


def annotated_yaml(machine: Machine) -> str:
    """The file of a machine with the sources of its values, and what is not public, in comments.

    Values that differ from those of the preset of this name have no comment; machines without a
    list of sources have none at all.
    """
    text = machine.to_yaml()
    if machine.name not in PUBLIC_MACHINES:
        return text
    known = provenance(machine.name)
    same = _equal_keys(machine.to_dict(), load_machine(machine.name).to_dict())
    comments = {
        key: words
        for key, words in (
            *known.sources.items(),
            *((key, f"Assumed. {why}") for key, why in known.assumptions.items()),
        )
        if key in same
    }
    lines = [*_commented(text, comments)]
    for title, remarks in (("Not public", known.not_public), ("Left out", known.left_out)):
        lines += [f"# {title}:", *(line for one in remarks for line in _comment(one, "", "- "))]
    return "\n".join(lines) + "\n"


def _equal_keys(values: Mapping[str, Any], others: Mapping[str, Any], path: str = "") -> set[str]:
    """Dotted keys of values, and of sections as a whole, that both have."""
    found = set()
    for key, value in values.items():
        other = others.get(key)
        if value == other:
            found.add(f"{path}{key}")
        if isinstance(value, Mapping) and isinstance(other, Mapping):
            found |= _equal_keys(value, other, f"{path}{key}.")
    return found


def _commented(text: str, comments: Mapping[str, str]) -> Iterator[str]:
    """Lines of a file, with the comment of a key in front of it."""
    path: list[str] = []
    for line in text.splitlines():
        name, colon, _ = line.partition(":")
        depth = (len(name) - len(name.lstrip())) // 2
        key = ".".join([*path[:depth], name.strip()])
        if colon and key in comments:
            yield from _comment(comments[key], "  " * depth, "")
        path[depth:] = [name.strip()]
        yield line


def _comment(words: str, indent: str, mark: str) -> list[str]:
    return textwrap.wrap(
        words,
        _WIDTH,
        initial_indent=f"{indent}# {mark}",
        subsequent_indent=f"{indent}# {' ' * len(mark)}",
        break_long_words=False,
        break_on_hyphens=False,
    )
