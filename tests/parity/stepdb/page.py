"""The page on StepDB: every point that can be rebuilt, ours beside published cycles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from stepsim import MODEL_VERSION
from tests.parity.stepdb.comparison import END_OF_RUN, Compared, compare

__all__ = ["PAGE", "page_of"]

PAGE = Path(__file__).parents[3] / "docs" / "stepdb.md"

HEAD = """\
# StepDB

How close are the cycles of another project's programs, measured there by the public Rust simulator
of STeP, to those of the same programs in stepsim? The tables were
[generated](measured-numbers.md) with model version {version}.

The StepDB folder of the public repository `patrickmcewen/NextStep` holds 167 runs of May 2026:
matrix products, activations, normalizations, attention, mixtures of experts and rotary embeddings,
on the machine of the STeP paper without start-up time. For 24 runs the graph or its parameters were
not recorded; of the others, those at hand are listed below. `tests/parity/stepdb` holds their
programs.

Not everything about the runs was recorded. Three settings were inferred from these very cycles: a
FIFO depth of 2, an on-chip bandwidth of 64 bytes per cycle, and one FLOP per element of a square.
The sizes of `generated_moe` were too. The other rules come from the simulator's behavior elsewhere.

The public simulator ends 1, 2 or 3 cycles after its last memory operator, depending on how the host
schedules its threads; StepDB lists one graph twice, with 858 and 859 cycles. stepsim always counts
3, so a difference of 0, 1 or 2 cycles does not contradict the rules.

## Agreement

{agreement}

## Closure slack

The other differences are all of mixtures of experts. Their likely cause is when an expert notices
the end of its tokens, which depends on the host's threads too and decides who gets the memory
first. `closure_slack` of a machine moves that moment, for all units alike ({{doc}}`timing`). For a
point that no value brings to 0, 1 or 2, this cause is likely but not proved. The cells are ours -
published:

{slack}

## All points

{points}
"""

SLACKS = range(3)


def page_of(found: Sequence[Compared]) -> str:
    """The text of the page."""
    groups = (
        ("without routing", [one for one in found if not one.point.routed]),
        ("with routing", [one for one in found if one.point.routed]),
    )
    agreement = [[name, str(len(own)), *_counts(own), _largest(own)] for name, own in groups if own]
    points = [
        [
            f"`{one.point.name}`",
            f"{one.ours:,}",
            f"{one.point.published:,}",
            f"{one.difference:+,}" if one.difference else "0",
            _percent(one),
        ]
        for one in sorted(found, key=lambda one: one.point.name)
    ]
    others = [one.point for one in found if not one.exact]
    slack = [
        [f"`{point.name}`", *(f"{compare(point, slack).difference:+,}" for slack in SLACKS)]
        for point in sorted(others, key=lambda point: point.name)
    ]
    differences = [f"ours - published = {cycles}" for cycles in END_OF_RUN]
    return HEAD.format(
        version=MODEL_VERSION,
        agreement=_table(("points", "number", *differences, "other", "largest other"), agreement),
        slack=_table(("point", *(f"slack {slack}" for slack in SLACKS)), slack),
        points=_table(("point", "ours", "published", "ours - published", "relative"), points),
    )


def _counts(found: Sequence[Compared]) -> list[str]:
    """How often each difference occurs that the end of a run explains, and any other."""
    counts = Counter(one.difference if one.exact else "other" for one in found)
    return [str(counts[key]) for key in (*END_OF_RUN, "other")]


def _largest(found: Sequence[Compared]) -> str:
    """The largest of the differences that the end of a run does not explain."""
    rest = [one for one in found if not one.exact]
    return _percent(max(rest, key=lambda o: abs(o.difference) / o.point.published)) if rest else "-"


def _percent(one: Compared) -> str:
    return f"{100 * one.difference / one.point.published:+.3f} %" if one.difference else "0"


def _table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    rule = ["---", *("---:" for _ in heading[1:])]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heading, rule, *rows))
