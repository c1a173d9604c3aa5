"""What changed between two programs: operators, their parameters, and streams, by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, Final

from stepsim.results.outline import OUTLINE_VERSION, Outline
from stepsim.results.places import unnumbered

Listing = Mapping[str, Any]
"""A program without numbers and source lines, small enough to be kept with a baseline:
``version``; ``program``, its defaults; ``operators``, the parameters of each by its name, lanes
together; and ``streams``, shape and depth by ``producer -> consumer``."""

_MOST_NAMES: Final = 4
_MOST_STREAMS: Final = 6
_MADE: Final = "made by"
_OUTPUTS: Final = "outputs"
_UNTOLD: Final = (
    "its operators and streams are the same by name; what differs is the data of its sources, or "
    "which input or lane of an operator a stream goes to"
)


_PARTS: Final = {"version", "program", "operators", "streams"}


def listing_of(outline: Outline) -> dict[str, Any]:
    """The listing of a program from its outline.

    Names have no numbers, which change with every operator that is added before; the second
    operator of a name is ``name (2)``.
    """
    counts: dict[str, int] = {}
    names = []
    for box in outline["boxes"]:
        plain = unnumbered(box["name"])
        counts[plain] = counts.get(plain, 0) + 1
        names.append(plain if counts[plain] == 1 else f"{plain} ({counts[plain]})")
    operators = {
        name: {
            _MADE: ", ".join(box["operators"]),
            **({"lanes": str(box["count"])} if box["count"] > 1 else {}),
            **box["parameters"],
            **({_OUTPUTS: box["all_outputs"]} if box["outputs"] else {}),
        }
        for name, box in zip(names, outline["boxes"], strict=True)
    }
    streams = {
        f"{names[edge['from']]} -> {names[edge['to']]}": {
            "elements": edge["elements"], "depth": edge["depths"],
        }
        for edge in outline["edges"]
    }  # fmt: skip
    program = {name: str(value) for name, value in outline["program"].items()}
    return {
        "version": outline["version"], "program": program, "operators": operators,
        "streams": streams,
    }  # fmt: skip


def is_listing(value: object) -> bool:
    """Whether a value that was read from a file is a listing; of other versions only the names of
    its parts are known.
    """
    if not isinstance(value, Mapping) or {*value} != _PARTS:
        return False
    if value["version"] != OUTLINE_VERSION:
        return isinstance(value["version"], int)
    program, operators, streams = (value[name] for name in ("program", "operators", "streams"))
    return (
        _has_texts(program)
        and isinstance(operators, Mapping)
        and all(_has_texts(one, _MADE) for one in operators.values())
        and isinstance(streams, Mapping)
        and all(_has_texts(one, "depth") for one in streams.values())
    )


def _has_texts(value: object, *names: str) -> bool:
    """Whether a value is a mapping of texts with these names."""
    return (
        isinstance(value, Mapping)
        and all(isinstance(one, str) for one in value.values())
        and all(name in value for name in names)
    )


def program_changes(
    before: Listing | None, after: Listing | None, whose: tuple[str, str] = ("A", "B")
) -> list[str]:
    """``residual: compute_bw 1024 -> 8`` for all that differs between two programs, a line each.

    Parameters
    ----------
    before, after : listings of the programs; None where there is none.
    whose : what has them, in words.

    Returns
    -------
    Defaults of the program first, then operators that were added and removed, parameters, streams
    that were added and removed, depths and shapes. One line that says why, where a listing is
    missing, of another version, or does not distinguish the programs.
    """
    for listing, owner in zip((before, after), whose, strict=True):
        if listing is None:
            return [
                f"the program, whose operators are not compared: {owner} was written without an "
                "outline of the program, and may name operators otherwise; write it again with "
                "this stepsim"
            ]
        if listing.get("version") != OUTLINE_VERSION:
            return [
                f"the program, whose operators are not compared: the outline in {owner} has "
                f"version {listing.get('version')}, this stepsim writes {OUTLINE_VERSION}; write "
                "it again"
            ]
    assert before is not None
    assert after is not None
    pairs = _paired(before["operators"], after["operators"])
    found = [f"default {text}" for text in _differences(before["program"], after["program"])]
    gone = [name for name in before["operators"] if name not in pairs]
    new = [name for name in after["operators"] if name not in set(pairs.values())]
    found += [f"added {_described(name, after)}" for name in new]
    found += [f"removed {_described(name, before)}" for name in gone]
    changed: dict[str, list[str]] = {}
    shaped: dict[str, list[str]] = {}
    for old, name in pairs.items():
        one, two = dict(before["operators"][old]), dict(after["operators"][name])
        shapes = one.pop(_OUTPUTS, ""), two.pop(_OUTPUTS, "")
        for text in _differences(one, two):
            changed.setdefault(text, []).append(name)
        if shapes[0] != shapes[1]:
            shaped.setdefault(f"{shapes[0]} -> {shapes[1]}", []).append(name)
    found += [f"{_named(names)}: {text}" for text, names in changed.items()]
    found += _stream_changes(before, after, pairs)
    # Shapes follow from the rest, and one change passes through all that comes after it.
    lines = [f"{_named(names)}: output {text}" for text, names in shaped.items()]
    found += _first(lines, "further shapes")
    return found or [_UNTOLD]


def _stream_changes(before: Listing, after: Listing, pairs: Mapping[str, str]) -> list[str]:
    """Streams between operators that both programs have, and depths of FIFOs."""
    old = {}
    for key, value in before["streams"].items():
        source, _, target = key.partition(" -> ")
        if source in pairs and target in pairs:
            old[f"{pairs[source]} -> {pairs[target]}"] = value
    kept = set(pairs.values())
    new = {key: value for key, value in after["streams"].items() if {*key.split(" -> ")} <= kept}
    lines = [f"added stream {key}" for key in new if key not in old]
    lines += [f"removed stream {key}" for key in old if key not in new]
    lines += [
        f"stream {key}: depth {old[key]['depth']} -> {value['depth']}"
        for key, value in new.items()
        if key in old and old[key]["depth"] != value["depth"]
    ]
    return _first(lines, "further changes of streams")


def _first(lines: Sequence[str], what: str) -> list[str]:
    more = len(lines) - _MOST_STREAMS
    return [*lines[:_MOST_STREAMS], *([f"and {more} {what}"] if more > 0 else [])]


def _paired(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, str]:
    """Name in the second program of each operator of the first that both have.

    Operators of one name are matched in order, those whose parameters are the same first.
    """
    pairs: dict[str, str] = {}
    ours, theirs = _by_name(before), _by_name(after)
    for plain, names in ours.items():
        others = theirs.get(plain, [])
        mine = [repr(sorted(before[one].items())) for one in names]
        other = [repr(sorted(after[one].items())) for one in others]
        matcher = SequenceMatcher(a=mine, b=other, autojunk=False)
        for _, i, i_end, j, j_end in matcher.get_opcodes():
            pairs.update(zip(names[i:i_end], others[j:j_end], strict=False))
    return pairs


def _by_name(operators: Mapping[str, Any]) -> dict[str, list[str]]:
    """Names by the name without ``(2)``, in the order of these numbers."""
    found: dict[str, list[tuple[int, str]]] = {}
    for name in operators:
        plain, _, number = name.rpartition(" (")
        known = plain in operators and number.endswith(")") and number[:-1].isdigit()
        key, order = (plain, int(number[:-1])) if known else (name, 1)
        found.setdefault(key, []).append((order, name))
    return {key: [name for _, name in sorted(names)] for key, names in found.items()}


def _differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    return [
        f"{name} {before.get(name, 'absent')} -> {after.get(name, 'absent')}"
        for name in dict.fromkeys([*before, *after])
        if before.get(name) != after.get(name)
    ]


def _described(name: str, listing: Listing) -> str:
    """``operator scale (map mul), with 3 streams``."""
    made = listing["operators"][name]
    function = f" {made['fn']}" if "fn" in made else ""
    lanes = f", {made['lanes']} lanes" if "lanes" in made else ""
    ends = [key for key in listing["streams"] if name in key.split(" -> ")]
    return f"operator {name} ({made[_MADE]}{function}{lanes}): {', '.join(ends) or 'no stream'}"


def _named(names: Iterable[str]) -> str:
    listed = list(names)
    more = len(listed) - _MOST_NAMES
    head = ", ".join(listed[:_MOST_NAMES])
    return head if more <= 0 else f"{head} and {more} more"
