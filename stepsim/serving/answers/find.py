"""The largest rate of requests at which a service meets its limits."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from math import isclose, sqrt
from pathlib import Path
from typing import Any, Final

from stepsim.atomic import replacing
from stepsim.errors import ArgError, ServingError
from stepsim.serving.service.folder import FILES, Folder, is_service
from stepsim.serving.service.outcome import ServeResult
from stepsim.serving.service.serve import AnySpec, Service, prepare_service
from stepsim.typed import typed

_MOST_DOUBLINGS: Final = 30
_SAME: Final = 1e-6

_TRIED: Final = "rates"
"""Folder of the services at all rates."""

_KEPT: Final = (
    "good_share", "goodput", "request_throughput", "output_throughput", "ttft_mean_ms",
    "ttft_p99_ms", "tpot_mean_ms", "tpot_p99_ms", "e2el_p99_ms",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Trial:
    """A rate that was tried.

    Attributes
    ----------
    rate : requests per second.
    is_met : whether the share of the requests that must met all limits.
    metrics : the main metrics at that rate, by the names of their columns.
    """

    rate: float
    is_met: bool
    metrics: dict[str, Any]


@dataclass(frozen=True, slots=True)
class FoundRate:
    """The largest rate at which a service meets its limits.

    Attributes
    ----------
    rate : the largest rate that was tried and meets them, in requests per second.
    too_much : the least rate that was tried and does not.
    slo : the limits.
    trials : all rates that were tried, in order of rate.
    best : the results at ``rate``.
    """

    rate: float
    too_much: float
    slo: str
    trials: tuple[Trial, ...]
    best: ServeResult

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values, without the results."""
        return {
            "rate": self.rate,
            "too_much": self.too_much,
            "slo": self.slo,
            "trials": [asdict(trial) for trial in self.trials],
        }

    def __str__(self) -> str:
        lines = [f"{self.rate:.4g} requests/s meet {self.slo}; {self.too_much:.4g} do not", ""]
        lines.append(f"{'rate':>10}{'share':>9}{'goodput':>10}{'TTFT p99':>12}{'TPOT p99':>12}")
        for trial in self.trials:
            m = trial.metrics
            lines.append(
                f"{trial.rate:10.4g}{100 * m['good_share']:8.2f}%{m['goodput']:10.4g}"
                f"{m['ttft_p99_ms']:9,.1f} ms{m['tpot_p99_ms']:9,.2f} ms"
            )
        return "\n".join(lines)


@typed
def find_rate(
    spec: AnySpec | None = None,
    *,
    tolerance: float = 0.02,
    out: str | Path | None = None,
    resume: bool = False,
    progress: Callable[[str], None] | None = None,
    **parameters: Any,
) -> FoundRate:
    """The largest rate at which the share of the SLO meets its limits, by bisection.

    All rates have the same requests, whose times of arrival are scaled. The search assumes that a
    larger rate is never easier.

    Parameters
    ----------
    spec, parameters : as of :func:`serve`; ``rate`` is where the search begins, by default 1.
    tolerance : the largest relative distance of the rate from one that is too much.
    out : folder for the results at the best rate, and ``rates.json`` with all that were tried. The
        service of each is in the folder ``rates``.
    resume : go on with the search that an earlier process has left in ``out``: rates of which it
        has the results are not served again.

    Raises
    ------
    ServingError : no rate meets the limits, or every rate does; or the folder has other results.
    ArgError : there are no limits, arrivals have no rate, or the tolerance is not from 0.0001 to 1.
    """
    if not 0.0001 <= tolerance <= 1:
        raise ArgError(f"tolerance: expected a number from 0.0001 to 1, found {tolerance}")
    if out is None and resume:
        raise ArgError("resume: has no effect without out; name the folder of the search")
    first = prepare_service(spec, **parameters)
    slo = first.spec.choices.slo
    if slo is None:
        raise ArgError("slo: missing; give limits, as in ttft=1s,tpot=50ms,share=0.99")
    trials: dict[float, Trial] = {}
    results: dict[float, ServeResult] = {}

    def meets(rate: float) -> bool:
        def at_this_rate(line: str) -> None:
            if progress is not None:
                progress(f"{rate:.4g} requests/s: {line}")

        service = first.at_rate(rate)
        result = _served(service, None if out is None else _of_rate(Path(out), rate), at_this_rate)
        share = result.metrics.get("good_share") or 0.0
        kept = {name: result.metrics.get(name) for name in _KEPT}
        trials[rate] = Trial(rate, share >= slo.share and result.status == "ok", kept)
        if trials[rate].is_met:
            results[rate] = result
        return trials[rate].is_met

    first.at_rate(1.0)  # which arrivals without a rate refuse
    if out is not None:
        _check(Path(out), resume=resume)
    good, bad = _bracket(meets, trials, first.spec.choices.rate or 1.0)
    while bad / good > 1 + tolerance:
        middle = sqrt(good * bad)
        good, bad = (middle, bad) if meets(middle) else (good, middle)
    ordered = tuple(trials[rate] for rate in sorted(trials))
    found = FoundRate(good, bad, str(slo), ordered, results[good])
    if out is not None:
        _write(found, Path(out))
    return found


def _bracket(
    meets: Callable[[float], bool], trials: Mapping[float, Trial], start: float
) -> tuple[float, float]:
    """A rate that meets the limits, and one of twice that which does not."""
    rate = start
    if meets(rate):
        for _ in range(_MOST_DOUBLINGS):
            if not meets(2 * rate):
                return rate, 2 * rate
            rate *= 2
        raise ServingError(
            f"every rate up to {rate:.4g} requests/s meets the limits; serve more requests, or "
            "give tighter limits"
        )
    for _ in range(_MOST_DOUBLINGS):
        rate /= 2
        if meets(rate):
            return rate, 2 * rate
        if _is_same(trials[rate], trials[2 * rate]):
            break
    raise ServingError(
        f"no rate down to {rate:.4g} requests/s meets the limits: even a request alone takes "
        "longer; give wider limits, or a faster machine"
    )


def _is_same(one: Trial, other: Trial) -> bool:
    """Whether the rate no longer matters, because every request is alone."""
    names = ("good_share", "ttft_mean_ms", "ttft_p99_ms", "tpot_p99_ms", "e2el_p99_ms")
    return all(
        isclose(one.metrics[name] or 0.0, other.metrics[name] or 0.0, rel_tol=_SAME)
        for name in names
    )


def _of_rate(out: Path, rate: float) -> Path:
    """The folder of the service at a rate."""
    return out / _TRIED / f"{rate!r}"


def _check(out: Path, *, resume: bool) -> None:
    """Refuse a folder that is not empty without ``resume``, or has no search with it."""
    begun = (out / _TRIED).is_dir()
    if begun and not resume:
        raise ServingError(
            f"{out}: has a search of rates already; continue it with --resume, or name another "
            "folder"
        )
    if not begun and out.is_dir() and any(out.iterdir()):
        raise ServingError(f"{out}: is not empty; name another folder")
    if not begun and resume:
        raise ServingError(f"{out}: has no search to resume; leave --resume out")


def _served(service: Service, place: Path | None, progress: Callable[[str], None]) -> ServeResult:
    """The results of a service, which goes on where an earlier process was ended."""
    if place is None:
        return service.run(progress=progress)
    folder = Folder(place, service.settings(), resume=is_service(place))
    return ServeResult.read(place) if folder.finished else service.run(folder, progress)


def _write(found: FoundRate, out: Path) -> None:
    """Have the folder be that of the service at the best rate, with all rates beside."""
    for name in FILES:
        with replacing(out / name) as (part,):
            shutil.copyfile(_of_rate(out, found.rate) / name, part)
    with replacing(out / "rates.json") as (part,):
        part.write_text(json.dumps(found.to_dict(), indent=2) + "\n", encoding="utf-8")
