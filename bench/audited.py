"""Audited against exact steps: ``python -m bench.audited MODEL exact|seeds N|table FOLDER``.

200 requests of the Azure conversation trace are served, with their recorded gaps, on llama-3-8b or
qwen3-30b-a3b. ``exact`` simulates every layer of every step, and goes on where it was stopped: a
few minutes of CPU for Llama-3-8B, 20 for Qwen3-30B-A3B with its 48 layers. ``seeds N`` then serves
the same requests N times with audited steps, and adds a row for each seed that FOLDER does not
have. What was simulated once is kept there, by ``exact`` too, and not simulated again by other
seeds, nor by a command that goes on where another one was stopped. The seeds are those of the
choice of layers that are simulated; requests and experts are the same in all of them, so that one
exact service is enough. ``table`` prints what is there, as of the rows that are recorded in
``bench``.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bench.test_serving_steps import MACHINE
from stepsim import MODEL_VERSION
from stepsim.serving import (
    AuditedSteps,
    Batch,
    ExactSteps,
    RequestRouting,
    ServeResult,
    Zipf,
    serve,
)
from stepsim.serving.service.errors.uncertainty import JUDGED
from stepsim.serving.service.serve import prepare_service
from stepsim.serving.steps.layers import Cost, StepPrograms
from stepsim.workloads import Model, Step
from tests.shared import TRACES

RATES: Final = {"llama-3-8b": 4.0, "qwen3-30b-a3b": 4.0}
"""Requests per second by model."""

REQUESTS: Final = 200

_RECORD: Final = np.dtype([("key", "V64"), ("cycles", "i8"), ("offchip_bytes", "i8")])

_COUNTS: Final = "seed", "rounds", "layers"

_COLUMNS: Final = (
    *_COUNTS,
    *(f"{name}{what}" for name in JUDGED for what in ("", "_low", "_high")),
)  # fmt: skip


def served(name: str, make: Callable[..., Any], out: Path | None = None) -> ServeResult:
    """The service with step models that ``make`` makes of a layer, a machine and the routing."""
    model = Model.parse(name)
    layer = Step.of(model=model, machine=MACHINE)
    given: dict[str, Any] = {
        "trace": str(TRACES / "AzureLLMInferenceTrace_conv.csv"), "requests": REQUESTS,
        "rate": RATES[name], "model": model, "memory_bytes": 80 * 10**9,
    }  # fmt: skip
    drawn: list[RequestRouting | None] = [None]
    if model.experts is not None:
        requests = prepare_service(**given, steps="linear:1000000").requests
        drawn = [RequestRouting.drawn(model, requests, Zipf(0.0), 0)]
    going_on = out is not None and out.exists()
    return serve(
        **given, steps=lambda: make(layer, MACHINE, drawn[0]), out=out, resume=going_on,
        progress=None if out is None else _line,
    )  # fmt: skip


class Costs:
    """The costs of layers by a digest of what they compute, kept in a file that only grows.

    A write that was interrupted leaves a part of a record at the end, which is dropped.
    """

    def __init__(self, path: Path) -> None:
        known = path.read_bytes() if path.exists() else b""
        whole = len(known) - len(known) % _RECORD.itemsize
        records = np.frombuffer(known[:whole], _RECORD)
        self._costs = {
            key.tobytes(): Cost(int(cycles), int(moved))
            for key, cycles, moved in zip(
                records["key"], records["cycles"], records["offchip_bytes"], strict=True
            )
        }
        self._file = path.open("ab")
        self._file.truncate(whole)

    def __contains__(self, key: bytes) -> bool:
        return key in self._costs

    def __getitem__(self, key: bytes) -> Cost:
        return self._costs[key]

    def add(self, found: Mapping[bytes, Cost]) -> None:
        """Keep more of them."""
        rows = [(key, one.cycles, one.offchip_bytes) for key, one in found.items()]
        self._file.write(np.array(rows, _RECORD).tobytes())
        self._file.flush()
        self._costs |= found


class Remembered:
    """The programs of a step model, whose runs are kept in ``costs`` for other models."""

    def __init__(self, programs: StepPrograms, costs: Costs) -> None:
        self._programs, self._costs = programs, costs
        self.runs = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._programs, name)

    def layers(
        self, kind: int, batch: Batch, ids: Sequence[NDArray[np.int32]] | None
    ) -> list[Cost]:
        """As of `StepPrograms`; ``runs`` counts those as well that need no run."""
        same = b"".join(getattr(batch, one).tobytes() for one in ("new", "before"))
        of_layers = [b""] if ids is None else [np.ascontiguousarray(one).tobytes() for one in ids]
        keys = [blake2b(b"%d" % kind + same + own).digest() for own in of_layers]
        missing = [place for place, key in enumerate(keys) if key not in self._costs]
        if missing:
            wanted = None if ids is None else [ids[place] for place in missing]
            found = self._programs.layers(kind, batch, wanted)
            self._costs.add({keys[place]: cost for place, cost in zip(missing, found, strict=True)})
        self.runs += len(keys)
        return [self._costs[key] for key in keys]


def remembering(make: Callable[..., Any], costs: Costs, **given: Any) -> Callable[..., Any]:
    """Make step models that keep what they simulate in ``costs``."""

    def made(*parts: Any) -> Any:
        model = make(*parts, **given)
        model.programs = Remembered(model.programs, costs)
        return model

    return made


def row_of(name: str, seed: int, exact: ServeResult, costs: Costs) -> dict[str, float]:
    """The errors of one seed, with their intervals, in percent."""
    audited = served(name, remembering(AuditedSteps, costs, seed=seed))
    return {"seed": seed, **errors_of(audited, exact)}


def errors_of(found: ServeResult, exact: ServeResult) -> dict[str, float]:
    """The errors of a service with audited steps, with their intervals, in percent."""
    stated = found.summary["errors"]
    row: dict[str, float] = {
        "rounds": stated["rounds"], "layers": found.summary["estimators"][0]["simulated"]
    }  # fmt: skip
    for metric in JUDGED:
        low, high = stated["intervals"][metric]
        error = found.metrics[metric] / exact.metrics[metric] - 1
        for what, value in (("", error), ("_low", low), ("_high", high)):
            row[metric + what] = round(100 * value, 4)
    return row


def rows_in(path: Path) -> list[dict[str, float]]:
    """The rows of a file, none if it does not exist."""
    if not path.exists():
        return []
    with path.open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    return [
        {key: int(float(x)) if key in _COUNTS else float(x) for key, x in row.items()}
        for row in rows
    ]


def write_rows(path: Path, rows: list[dict[str, float]]) -> None:
    """Have a file of these rows, in its place as a whole."""
    part = path.with_suffix(".part")
    with part.open("w", newline="") as lines:
        made = csv.DictWriter(lines, [name for name in _COLUMNS if name in rows[0]])
        made.writeheader()
        made.writerows(rows)
    part.replace(path)


def table_of(rows: list[dict[str, float]]) -> str:
    """How many seeds are within their interval, and how many within 1 %, by metric."""
    lines = [
        "| metric | seeds | within the interval | within 1 % | largest error |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name in JUDGED:
        held = sum(one[f"{name}_low"] <= one[name] <= one[f"{name}_high"] for one in rows)
        near = sum(abs(one[name]) < 1 for one in rows)
        worst = max((abs(one[name]) for one in rows), default=0.0)
        lines.append(f"| {name} | {len(rows)} | {held} | {near} | {worst:.2f} % |")
    return "\n".join(lines)


def _line(text: str) -> None:
    print(text, flush=True)


def main(name: str, what: str, *rest: str) -> None:
    """Do what the arguments say."""
    folder = Path(rest[-1])
    path = folder / f"audited_{name}.csv"
    if what == "table":
        print(table_of(rows_in(path)))
        return
    folder.mkdir(parents=True, exist_ok=True)
    costs = Costs(folder / f"costs_{name}_{MODEL_VERSION}.bin")
    if what == "exact":
        print(served(name, remembering(ExactSteps, costs), folder / name))
    else:
        exact = ServeResult.read(folder / name)
        for seed in range(int(rest[0])):
            rows = rows_in(path)
            if seed not in {one["seed"] for one in rows}:
                write_rows(path, [*rows, row_of(name, seed, exact, costs)])


if __name__ == "__main__":
    main(*sys.argv[1:])
