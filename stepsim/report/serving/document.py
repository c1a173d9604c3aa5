"""The content of the page of a service, or of several side by side, as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from stepsim.errors import ArgError, StepSimError
from stepsim.report.html.run_document import column_facts, plain, table_document
from stepsim.report.serving.series import (
    KINDS,
    LATENCIES,
    NAMES,
    EngineSteps,
    engines_of,
    kinds_of,
    latencies_ms,
    slo_of,
    span_of,
    with_spans,
)
from stepsim.report.serving.thinned import by_column, by_rank, total
from stepsim.results import COLUMNS
from stepsim.serving import ServeResult, compare_services, why_served
from stepsim.typed import typed

_COLUMNS: Final = 1000
"""Columns of pixels of a curve over time; those of replicas have so many together."""

_LEAST_COLUMNS: Final = 100
_BINS: Final = 200
_DOTS: Final = 3000
_SLOWEST: Final = 200
_MOST_SERVICES: Final = 8

_SHOWN: Final = (
    "request", "replica", "arrival_ns", "prompt_tokens", "output_tokens", "ttft_ns", "tpot_ns",
    "e2el_ns", "cached_tokens", "recomputed_tokens", "preemptions",
)  # fmt: skip


@typed
def service_document(results: Mapping[str, ServeResult]) -> dict[str, Any]:
    """The content of a page that shows services, for `write_page`.

    Parameters
    ----------
    results : services by the name that the page gives them. Of several, the first is compared with
        each of the others.

    Raises
    ------
    ArgError : there is no service, or there are too many for a page.
    """
    check_services(results, _MOST_SERVICES)
    first, *others = results.values()
    return {
        "kind": "service",
        "title": " and ".join([", ".join([*results][:-1]), [*results][-1]])
        if len(results) > 1
        else next(iter(results)),
        "services": [_service(name, result) for name, result in results.items()],
        "names": NAMES,
        "kinds": list(KINDS),
        "compared": [
            {"name": name, **_compared(first, other)}
            for name, other in zip([*results][1:], others, strict=True)
        ],
    }


def check_services(results: Mapping[str, ServeResult], most: int) -> None:
    """Refuse no services and too many.

    Raises
    ------
    ArgError : with the number that was found.
    """
    if not 1 <= len(results) <= most:
        raise ArgError(f"results: expected 1 to {most} services, found {len(results)}")


def _service(name: str, result: ServeResult) -> dict[str, Any]:
    summary, metrics = result.summary, result.metrics
    slo = slo_of(result)
    engines = engines_of(result)
    first, after = span_of(result)
    blocks = summary.get("kv_blocks")
    drawn = _Drawn(engines, first, after, blocks)
    columns = max(_LEAST_COLUMNS, _COLUMNS // len(engines))
    replicas = [drawn.part([number], columns) for number in range(len(engines))]
    return {
        "name": name,
        "status": result.status,
        "requests": summary["requests"],
        "metrics": plain(metrics),
        "facts": {name: _facts(name) for name in metrics},
        "slo": None if slo is None else {"text": str(slo), "share": slo.share, **slo.limits},
        "cdf": {name: _distribution(latencies_ms(result, name)) for name in LATENCIES},
        "span": [first, after],
        "blocks": blocks,
        "all": drawn.part(range(len(engines)), _COLUMNS) if len(engines) > 1 else replicas[0],
        "replicas": replicas if len(engines) > 1 else [],
        "slowest": _slowest(result),
        "why": _why(result),
        "estimators": plain(summary.get("estimators", [])),
        "settings": plain(
            {key: one for key, one in summary["settings"].items() if one not in (None, {})}
        ),
        "machine": plain(summary.get("machine")),
        "versions": plain(summary.get("versions", {})),
    }


def _facts(name: str) -> dict[str, str]:
    """Unit and definition of a metric."""
    facts: dict[str, str] = column_facts([COLUMNS[name]])[name]
    return facts


def _distribution(values: NDArray[np.float64]) -> dict[str, Any]:
    """Points of the share of values up to each: ``at`` in ms, ``share``, and all as ``count``."""
    ranks = by_rank(len(values))
    return {
        "at": values[ranks].tolist(),
        "share": ((ranks + 1) / max(len(values), 1)).tolist(),
        "count": len(values),
    }


class _Drawn:
    """What engines did over time, as curves and sums."""

    def __init__(
        self, engines: list[EngineSteps], first: int, after: int, blocks: int | None
    ) -> None:
        self._engines, self._first, self._after = engines, first, after
        self._blocks = blocks

    def part(self, which: Sequence[int], columns: int) -> dict[str, Any]:
        """Those with these numbers together; times are in ns since the beginning."""
        engines = [self._engines[number] for number in which]
        lines = {
            "running": [one.line(one.running, 0) for one in engines],
            "waiting": [one.line(one.waiting, 0) for one in engines],
        }
        if self._blocks is None:
            lines["free_blocks"] = [(one.start, one.free) for one in engines]
        else:
            lines["used_blocks"] = [one.line(self._blocks - one.free, 0) for one in engines]
        every = {
            name: np.concatenate([one.columns[name] for one in engines])
            for name in engines[0].columns
        }
        start, length = every["start_ns"], every["length_ns"]
        order = np.argsort(start, kind="stable")
        known = all(one.decode is not None for one in engines)
        decode = np.concatenate([one.decode for one in engines]) if known else None
        found: dict[str, Any] = {
            "curves": {name: self._curve(*total(own), columns) for name, own in lines.items()},
            "lengths": self._curve(start[order], length[order], columns),
            "columns": columns,
            "busy": int(length.sum()),
            "steps": len(start),
            "engines": len(engines),
            "bounds": _shares(every["bound"], length),
            "how": _shares(every["how"], length),
            "over_time": self._over_time(engines, every["bound"]),
        }
        if decode is not None:
            kind = kinds_of(every["new_tokens"], decode)
            found["kinds"] = [
                _kind(number, kind == number, every, decode) for number in range(len(KINDS))
            ]
            found["dots"] = _dots(every, kind)
        return found

    def _curve(self, at: NDArray[Any], values: NDArray[Any], columns: int) -> dict[str, Any]:
        kept = by_column(at, values, columns, self._first, self._after)
        return {"at": (at[kept] - self._first).tolist(), "value": values[kept].tolist()}

    def _over_time(self, engines: Sequence[EngineSteps], bounds: NDArray[Any]) -> dict[str, Any]:
        """Tokens and ns by resource in each part of the time; those of a step are spread evenly
        over it."""
        edges = np.linspace(self._first, self._after, _BINS + 1)

        def binned(amounts: Sequence[NDArray[Any]]) -> list[float]:
            parts = [one.spread(own, edges) for one, own in zip(engines, amounts, strict=True)]
            found: list[float] = np.sum(parts, axis=0).round(3).tolist()
            return found

        if any(one.decode is None for one in engines):
            tokens = {"tokens": binned([one.new for one in engines])}
        else:
            decode = [one.decode for one in engines if one.decode is not None]
            new = [one.new - own for one, own in zip(engines, decode, strict=True)]
            tokens = {"prefill": binned(new), "decode": binned(decode)}
        return {
            "width": (self._after - self._first) / _BINS,
            "tokens": tokens,
            "bounds": {
                name: binned(
                    [
                        np.where(one.columns["bound"] == name, one.end - one.start, 0)
                        for one in engines
                    ]
                )
                for name in sorted(set(bounds.tolist()) - {""})
            },
        }


def _shares(names: NDArray[Any], length: NDArray[Any]) -> list[dict[str, Any]]:
    """Steps and their time by name, the longest first."""
    different, codes = np.unique(names.astype(str), return_inverse=True)
    steps = np.bincount(codes, minlength=len(different))
    times = np.zeros(len(different), np.int64)
    np.add.at(times, codes, length)
    found = [
        {"name": name, "steps": int(count), "ns": int(ns)}
        for name, count, ns in zip(different.tolist(), steps, times, strict=True)
    ]
    return sorted(found, key=lambda one: -one["ns"])


def _kind(
    number: int, own: NDArray[np.bool_], every: Mapping[str, NDArray[Any]],
    decode: NDArray[np.int64],
) -> dict[str, Any]:  # fmt: skip
    length = every["length_ns"][own]
    return {
        "name": KINDS[number],
        "steps": int(own.sum()),
        "ns": int(length.sum()),
        "median_ns": float(np.median(length)) if len(length) else None,
        "longest_ns": int(length.max(initial=0)) if len(length) else None,
        "prefill": int((every["new_tokens"][own] - decode[own]).sum()),
        "decode": int(decode[own].sum()),
    }


def _dots(every: Mapping[str, NDArray[Any]], kind: NDArray[np.int64]) -> dict[str, Any]:
    """One in so many steps: its tokens, requests, length and kind."""
    stride = -(-len(kind) // _DOTS) or 1
    names = ("new_tokens", "batch_requests", "context_tokens", "length_ns")
    return {
        "stride": stride,
        "kind": kind[::stride].tolist(),
        **{name: every[name][::stride].tolist() for name in names},
    }


def _slowest(result: ServeResult) -> dict[str, Any]:
    """The requests with the largest latency, as the table has them."""
    latency = result.requests["e2el_ns"].fill_null(-1).to_numpy()
    order = np.argsort(-latency, kind="stable")[:_SLOWEST]
    table = result.requests.select(list(_SHOWN)).take(order[latency[order] >= 0])
    return table_document(table)


def _why(result: ServeResult) -> dict[str, Any]:
    """Where the time went, or the reason why that is not known."""
    known, missing = with_spans(result)
    if missing:
        return {"missing": missing}
    try:
        return why_served(known).to_dict()
    except StepSimError as error:
        return {"missing": str(error)}


def _compared(first: ServeResult, other: ServeResult) -> dict[str, Any]:
    try:
        return plain(compare_services(first, other).to_dict())  # type: ignore[no-any-return]
    except StepSimError as error:
        return {"missing": str(error)}
