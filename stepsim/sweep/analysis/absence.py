"""Why runs of a sweep lack a metric, or why there is no run, in words for messages."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from stepsim.results import ENERGY, EVERY_MEASURE, MEASURES, OF_LIMITS, SERVING, SPREAD
from stepsim.sweep.analysis.tables import read_failures, read_runs
from stepsim.sweep.planning.optional_measures import BOUND
from stepsim.sweep.storage.manifest import read_manifest

_SIZES: Final = (
    "they depend on sizes that only a run decides; the workload states these with Built.symbols"
)
_NO_PEAK: Final = (
    "memories of machines with hbm.model=uncontended have no peak; choose another machine or metric"
)
_NO_BANDWIDTH: Final = (
    "no operator of the program has a compute bandwidth; state compute_bw for those that compute, "
    "or compute.unit_flops_per_cycle of the machine"
)
_CLOCK: Final = "runs have {} if the machine states clock_ghz; cycles are always available"
_OF_SERVICES: Final = {
    **dict.fromkeys(OF_LIMITS, "services have it if they state limits as slo"),
    **dict.fromkeys(
        ("served_cycles", "served_offchip_bytes"), "services have it whose steps are simulated"
    ),
    **dict.fromkeys(
        ("estimate_bias", "estimate_bias_low", "estimate_bias_high"),
        "services have it whose steps are estimated and audited",
    ),
}


def why_absent(
    folder: str | Path, metrics: Sequence[str], runs: Collection[str] | None = None
) -> str:
    """Why runs lack metrics, and how to get them.

    The sweep cannot have them, did not keep them, or they are not known for such a program or
    machine.

    Parameters
    ----------
    runs : keys of the runs that are asked about; None for all that succeeded.
    """
    lacking = _Lacking(folder, runs)
    if not set(metrics) <= {*EVERY_MEASURE, *BOUND}:
        return f"choose among {', '.join(lacking.measures)}"
    kept = lacking.spec.get("metrics")
    reasons: list[str] = []
    to_add: list[str] = []
    for name in metrics:
        reason = lacking.impossible(name)
        if reason is None and kept is not None and name not in kept:
            to_add.append(name)
            continue
        reason = reason or lacking.unknown(name)
        reasons.append(reason if len(metrics) == 1 else f"{name}: {reason}")
    if to_add:
        which = "them" if to_add == [*metrics] else ", ".join(to_add)
        reasons.insert(0, f"add {which} to the key 'metrics' of the sweep")
    return "; ".join(dict.fromkeys(reasons))


def why_none_succeeded(folder: str | Path) -> str:
    """Why no run succeeded."""
    kinds = Counter(read_failures(folder, ["error"])["error"].to_pylist())
    if not kinds:
        return "no run is finished yet; continue the sweep with --resume"
    found = ", ".join(f"{count:,} x {kind}" for kind, count in sorted(kinds.items()))
    return (
        f"no run succeeded ({found}), so there is nothing to compare; the reasons are in its "
        "table failures"
    )


@dataclass(frozen=True)
class _Lacking:
    """Runs that lack metrics, of a sweep."""

    folder: str | Path
    runs: Collection[str] | None

    @property
    def spec(self) -> Mapping[str, Any]:
        return read_manifest(self.folder).spec

    @property
    def _is_service(self) -> bool:
        return self.spec.get("service") is not None

    @property
    def measures(self) -> tuple[str, ...]:
        return SERVING if self._is_service else MEASURES

    @property
    def other(self) -> str:
        """Metrics that runs of such a sweep have."""
        return "tpot_p99_ms or goodput" if self._is_service else "cycles or offchip_bytes"

    def impossible(self, name: str) -> str | None:
        """Why no key ``metrics`` would give these runs the metric; None if one may."""
        if self._is_service:
            if name in SERVING:
                return None
            return f"only runs of programs have it; choose another metric, such as {self.other}"
        if name in SERVING:
            return f"only services have it; choose another metric, such as {self.other}"
        if name in SPREAD and self.spec.get("ensemble") is None:
            return "runs have it if the sweep has the key ensemble"
        if name in BOUND and not self.spec.get("bounds"):
            return "runs have it if the sweep has the key bounds"
        # Of several machines, that of any run may have a table.
        if name in ENERGY and not self._any("energy"):
            needs = "has a table of energies"
            if name in ("edp", "tokens_per_second") and not self._any("clock_ghz"):
                needs += " and states clock_ghz"
            return f"runs have it if the machine {needs}"
        return None

    def unknown(self, name: str) -> str:
        """Why runs that kept a metric do not have it."""
        executed = set(self._column("counting")) == {"executed"}
        if name == "milliseconds":
            return _CLOCK.format("them")
        if name in ENERGY:
            if not self._all("energy"):
                return "runs have it if the machine has a table of energies"
            if not self._all("clock_ghz"):
                return _CLOCK.format("it")
            return "runs have it if the workload has traces or states its tokens with Built.tokens"
        if name == "bandwidth_utilization" and (executed or not self._any_peak()):
            return _NO_PEAK
        if name == "compute_utilization" and executed:
            return _NO_BANDWIDTH
        if name in ("onchip_bytes", "offchip_bytes", "flops", "bandwidth_utilization"):
            return _SIZES
        if name == "compute_utilization":
            return f"{_SIZES}, or {_NO_BANDWIDTH}"
        if name == "padded_flops":
            return "the workload states them with Built.padded_flops"
        if name == "fifo_bytes":
            return (
                "they depend on sizes that only a run decides, or a FIFO is unbounded; state "
                "sizes with Built.symbols, and a depth for every FIFO"
            )
        return _OF_SERVICES.get(name, f"choose another metric, such as {self.other}")

    def _column(self, name: str) -> list[Any]:
        table = read_runs(self.folder, ["run", name]).to_pylist()
        return [row[name] for row in table if self.runs is None or row["run"] in self.runs]

    def _machines(self) -> list[Mapping[str, Any]]:
        return [json.loads(text) for text in dict.fromkeys(self._column("machine_json"))]

    def _any(self, key: str) -> bool:
        return any(machine.get(key) is not None for machine in self._machines())

    def _all(self, key: str) -> bool:
        return all(machine.get(key) is not None for machine in self._machines())

    def _any_peak(self) -> bool:
        return any(m.get("hbm", {}).get("model") != "uncontended" for m in self._machines())
