"""The validation page of networks; ``stepsim reproduce noc-validation`` writes it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from stepsim.reproduce.noc.cases import (
    TRACE_MODELS,
    Case,
    read_cases,
    recorded_traces,
    replay_link,
    replay_npe,
    replay_trace,
)
from stepsim.reproduce.noc.curves import MOST_LOAD, CurvePoint, curve_points
from stepsim.reproduce.pages.files import write_file
from stepsim.reproduce.pages.markdown import table_lines

_HEAD = """\
# Validation of networks

How close are simulated networks to other programs and to silicon? Written by
`stepsim reproduce noc-validation`; do not edit.

`tests/noc/test_noc_cases.py` asserts every number of the cases, `tests/noc/test_closed_forms.py`
those that are known without a simulator, and `tests/noc/test_link_oracle.py` compares random
traffic with a plain program of the same rules.
"""

_CASES = """\
## Other programs

tt-npe (Apache-2.0, Tenstorrent AI ULC): start and end of every transfer and the total with and
without congestion are equal to the digit. `link`: the arrival of every packet is that of a second
program of the same rules.
"""

_SILICON = """\
## Silicon

Traces of a Wormhole chip, published with tt-npe: reads of 0.25 to 2 MiB in all, with the
cycles that the chip took. Issue times are those of the traces. Nothing was fitted: `memory_cycles`
is an ordinary access to GDDR6, about 100 ns at about 1 GHz, which the latencies of the network do
not include. There are no writes and no multicasts among the traces, and none of Blackhole.

71 traces were published. The errors in this table are those of the traces that the recorded cases
hold, whose number it gives. The mean absolute error of `flow, memory_cycles = 100` on all 71 is
2.76 %.
"""

_ROUTERS = """\
## Routers

Mean latency of packets by BookSim2 (BSD-2-Clause) on meshes of 4 x 4 and 8 x 8: dimension-order
routing, 8 virtual channels of 8 flits, stages of one cycle, uniform, transposed, neighbor and
hot-node traffic, packets of 1, 4 and 16 flits. Packets are drawn by the same rates and patterns.
`link` has neither finite buffers nor a number of virtual channels, so it is optimistic near
saturation.
"""


def noc_page(folder: Path) -> str:
    """The page as Markdown; ``folder`` has the recorded cases.

    Raises
    ------
    TraceError : a file is missing or unreadable.
    """
    points = curve_points(folder / "booksim_curves.csv", most_load=1.0)
    return "\n".join(
        [
            _HEAD, _CASES,
            *table_lines(("file", "model", "cases", "transfers", "equal"), _case_rows(folder)),
            _SILICON, *table_lines(_ERRORS, _silicon_rows(folder)),
            _ROUTERS, *table_lines(("load", "points", *_ERRORS[2:], "within 5 %"),
                                   _curve_rows(points)),
        ]
    ).rstrip("\n") + "\n"  # fmt: skip


def write_noc_validation(path: Path, folder: Path) -> None:
    """Write the page.

    Raises
    ------
    TraceError : as `noc_page`.
    OutputError : it cannot be written.
    """
    write_file(path, noc_page(folder).encode())


_ERRORS = ("model", "traces", "mean absolute error", "median", "90th percentile", "largest", "bias")


def spread(errors: ArrayLike) -> tuple[float, float, float, float, float]:
    """Mean absolute error, median, percentile 90 and largest of the absolute ones, and bias."""
    signed = np.asarray(errors, float)
    size = np.abs(signed)
    median, p90 = np.percentile(size, [50, 90])
    return float(size.mean()), float(median), float(p90), float(size.max()), float(signed.mean())


def silicon_errors(folder: Path) -> dict[str, list[float]]:
    """Errors of the models on the traces of silicon, in percent of the measured cycles."""
    found: dict[str, list[float]] = {model.name: [] for model in TRACE_MODELS}
    for case, trace in recorded_traces(folder):
        for model in TRACE_MODELS:
            _, cycles = replay_trace(trace, model)
            found[model.name].append(100 * (cycles / case.recorded["silicon_cycles"] - 1))
    return found


def is_equal_npe(case: Case) -> bool:
    """Whether a case of tt-npe is equal in all that is recorded."""
    run, cycles = replay_npe(case)
    _, freely = replay_npe(case, congestion=False)
    return (
        bool((run.start == case.array("start")).all() and (run.arrival == case.array("end")).all())
        and cycles == case.recorded["cycles"]
        and freely == case.recorded["cycles_no_congestion"]
    )


def is_equal_link(case: Case) -> bool:
    """Whether all packets of a case of the model ``link`` arrive as recorded."""
    return bool((replay_link(case).arrival == case.array("link_arrive")).all())


def _case_rows(folder: Path) -> Iterable[Sequence[str]]:
    for file, model, many, is_equal in (
        ("npe_random.jsonl", "npe", "transfers", is_equal_npe),
        ("link.jsonl", "link", "packets", is_equal_link),
    ):
        cases = read_cases(folder / file)
        count = sum(len(case.recorded[many]) for case in cases)
        equal = sum(is_equal(case) for case in cases)
        yield f"`{file}`", model, str(len(cases)), f"{count:,}", f"{equal} of {len(cases)}"
    traces = list(recorded_traces(folder))
    npe = next(model for model in TRACE_MODELS if model.recorded == "npe_cycles")
    equal = 0
    for case, trace in traces:
        run, cycles = replay_trace(trace, npe)
        starts = (run.start == case.array("npe_start")).all()
        ends = (run.arrival == case.array("npe_end")).all()
        equal += bool(starts and ends and cycles == case.recorded["npe_cycles"])
    count = sum(len(case.recorded["npe_end"]) for case, _ in traces)
    yield "`silicon.jsonl`", "npe", str(len(traces)), f"{count:,}", f"{equal} of {len(traces)}"


def _silicon_rows(folder: Path) -> Iterable[Sequence[str]]:
    for name, errors in silicon_errors(folder).items():
        yield name, str(len(errors)), *_shown(errors)


def _curve_rows(points: Sequence[CurvePoint]) -> Iterable[Sequence[str]]:
    for low, high in ((0.0, 0.25), (0.25, 0.45), (0.45, MOST_LOAD), (MOST_LOAD, 0.85), (0.85, 1.0)):
        chosen = [one.error for one in points if low < one.load <= high]
        yield _curve_row(f"{low:g} to {high:g}", chosen)
    low_loads = [one.error for one in points if one.load <= MOST_LOAD]
    yield _curve_row(f"**up to {MOST_LOAD:g}**", low_loads)


def _curve_row(label: str, errors: Sequence[float]) -> Sequence[str]:
    near = sum(abs(one) <= 5 for one in errors)
    return label, str(len(errors)), *_shown(errors), f"{near} of {len(errors)}"


def _shown(errors: Any) -> tuple[str, ...]:
    *sizes, bias = spread(errors)
    return *(f"{one:.2f} %" for one in sizes), f"{bias:+.2f} %"
