"""The text of an explanation: 80 columns, the verdict first."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from stepsim.arguments import counted
from stepsim.explain.changes.suggestions import Suggestion
from stepsim.explain.changes.text import WIDTH, change_lines, cut, percent
from stepsim.explain.speed_of_light import Resource, SpeedOfLight
from stepsim.results import Cause, OperatorStalls, StallTree, line_of

if TYPE_CHECKING:
    from stepsim.explain.explanation import Why

_MOST_SUGGESTIONS: Final = 5
_MOST_OPERATORS: Final = 6
_MOST_CAUSES: Final = 2
_SMALL: Final = 0.01
"""Fraction of a run below which a cause of stalls is not listed."""

_RESOURCE: Final = 28
"""Columns for a resource and its unit; a longer name continues on the next line."""

_LITTLE: Final = 0.001
"""Gain below which a change is not listed."""

_NAMES: Final = {
    "hbm_bandwidth": "HBM bandwidth",
    "hbm_latency": "HBM latency",
    "hbm_port": "memory port",
    "compute": "compute",
    "onchip_bandwidth": "on-chip bandwidth",
    "token_rate": "token rate",
    "link": "link",
}
_ORIGINS: Final = ("work", "memory", "network")
"""Causes for which others wait."""

_CAUSES: Final = {
    "work": "works",
    "memory": "waits for its off-chip accesses",
    "network": "waits for packets over the network",
    "input": "waits for input from {}",
    "output": "waits for room at {}",
}


def explanation_text(why: Why) -> str:
    """The complete text, without trailing blanks."""
    lines = [
        cut(f"{why.program} on {why.machine}: {why.status}, {why.cycles:,} cycles"),
        *textwrap.wrap(why.verdict.sentence, WIDTH, break_on_hyphens=False),
    ]
    if why.diagnosis is not None and str(why.diagnosis) != why.verdict.sentence:
        lines += ["", *str(why.diagnosis).splitlines()]
    for sentence in () if why.fix is None else why.fix.sentences:
        lines += textwrap.wrap(sentence, WIDTH, break_on_hyphens=False, break_long_words=False)
    if why.speed_of_light is not None and why.speed_of_light.resources:
        lines += ["", *_light(why.speed_of_light)]
    if why.what_if is not None:
        lines += ["", *_suggestions(why.suggestions, why.what_if.cost_unit)]
        lines.append(f"measured by {counted(why.what_if.runs, 'run')} with changes")
    lines += ["", *_stalls(why.stalls)]
    return "\n".join(line.rstrip() for line in lines)


def _light(light: SpeedOfLight) -> Iterator[str]:
    yield _row("speed of light", "used", "peak", "share", "alone takes")
    for one in light.resources:
        kind, target = _NAMES[one.kind], cut(one.target)
        name = f"{kind} {target}".rstrip()
        fits, line = len(name) <= _RESOURCE, line_of(one.source)
        suffix = "" if one.unit in ("bytes", "FLOPs") else f" {one.unit}"
        used, peak = f"{_amount(one.used, one)}{suffix}", _amount(one.peak, one)
        yield _row(name if fits else kind, used, peak, percent(one.share), f"{one.bound:,}")
        more = [text for text in ("" if fits else target, line) if text]
        if len(", ".join(more)) <= WIDTH - 2:
            more = [", ".join(more)] if more else []
        yield from (cut(f"  {text}") for text in more)
    assert light.largest is not None  # there are resources
    yield f"the run takes {light.cycles / light.largest.bound:.2f} times the largest of them"


def _row(name: str, used: str, peak: str, share: str, bound: str) -> str:
    return f"{name:{_RESOURCE}} {used:>17} {peak:>13} {share:>7} {bound:>11}"


def _amount(value: float, one: Resource) -> str:
    """A scaled number of bytes or FLOPs, or a plain one."""
    unit = {"bytes": "B", "FLOPs": "F"}.get(one.unit)
    if unit is None:
        return f"{value:,.0f}"
    for prefix, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:,.1f} {prefix}{unit}"
    return f"{value:,.0f} {unit}"


def _suggestions(found: Sequence[Suggestion], unit: str | None) -> Iterator[str]:
    shown = [one for one in found if one.gain >= _LITTLE][:_MOST_SUGGESTIONS]
    if not shown:
        return iter(["no change that was tried makes the run shorter"])
    return change_lines([one.row for one in shown], "what helps, as measured", unit)


def _stalls(tree: StallTree) -> Iterator[str]:
    """The operators that work or wait for memory longest; the others wait for them."""
    if not tree.cycles or not tree.operators:
        return
    longest = sorted(tree.operators, key=lambda one: -_origin(one))[:_MOST_OPERATORS]
    longest = [one for one in longest if _origin(one) >= _SMALL * tree.cycles]
    yield f"{'where the cycles go':44} {'median':>9} {'least to most of lanes':>25}"
    for stage, operators in tree.stages.items():
        chosen = [one for one in operators if one in longest]
        if chosen:
            yield stage
        for one in chosen:
            lanes = "" if one.lanes == 1 else f", {one.active} of {one.lanes} fire"
            line = f", {line_of(one.source)}" if one.source else ""
            yield cut(f"  {one.operator} ({one.kind}{line}){lanes}")
            yield from _causes(one, tree.cycles)


def _origin(one: OperatorStalls) -> int:
    return max((c.cycles.most for c in one.causes if c.cause in _ORIGINS), default=0)


def _causes(one: OperatorStalls, cycles: int) -> Iterator[str]:
    shown = [c for c in one.causes if c.cause in _CAUSES and c.cycles.most >= _SMALL * cycles]
    for cause in shown[:_MOST_CAUSES]:
        yield _cause(cause, cycles)


def _cause(one: Cause, cycles: int) -> str:
    text = cut(_CAUSES[one.cause].format(one.peer), 40)
    spread = one.cycles
    lanes = ""
    if spread.least != spread.most:
        lanes = f"{percent(spread.least / cycles)} to {percent(spread.most / cycles)}"
    return f"    {text:40} {percent(spread.median / cycles):>9} {lanes:>25}"
