"""The recorded runs of a serving simulator: their cases, and what they expect.

Cases are in ``cases.json`` and ``cases_extra.json`` of a folder, with the files that they name:
workloads, profiles, expected results.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from stepsim.arrow import pq
from stepsim.errors import TraceError
from stepsim.serving import Link, Profile, RecordedIds, Requests, TableSteps, read_profile

CHAIN_TOKENS: Final = 16
"""Tokens of the blocks that have ids in the files of workloads."""

_MODULUS: Final = 1_000_000_007
_UTILIZATION: Final = 0.9


@dataclass(frozen=True)
class Expected:
    """What a run gave: of every request queue, ttft and end, and gaps or their check sum."""

    clock_ns: int
    totals: dict[str, int]
    requests: list[dict[str, Any]] = field(repr=False)


@dataclass(frozen=True)
class Case:
    """A recorded run of one engine, and the devices that share its layers.

    Attributes
    ----------
    folder : of the recorded runs.
    name : of the case.
    settings : as recorded.
    """

    folder: Path
    name: str
    settings: Mapping[str, Any] = field(repr=False)

    @property
    def instance(self) -> Mapping[str, Any]:
        """Settings of the engine."""
        settings: Mapping[str, Any] = self.settings["instances"][0]
        return settings

    @property
    def profile(self) -> Profile:
        return _profile(self.folder / self.instance["profile"])

    @property
    def blocks(self) -> int:
        """Blocks of keys and values, all of which can be used."""
        one = self.instance
        if "num_blocks" in one:
            return int(one["num_blocks"])
        memory = int(one["mem_gb"] * 2**30 * one.get("mem_util", _UTILIZATION))
        return self.profile.kv_blocks(memory, self.block_tokens)

    @property
    def block_tokens(self) -> int:
        return int(self.instance.get("block_size", 16))

    def steps(self) -> TableSteps:
        """The time of its steps."""
        given, profile = self.settings, self.profile
        loaded = "weights" in self.instance
        link = None
        if profile.tp > 1:
            dims = tuple(size for size in given["dims"] if size > 1)
            link = Link(given["link_bw"], given["link_latency"], dims)
        memory = given["npu_mem_bw"] if loaded or link else None
        return TableSteps(
            profile, given["cpu_mem_bw"], memory_gbps=memory, link=link, weights_loaded=loaded
        )

    def requests(self) -> Requests:
        """Its requests; their numbers are the ids of the workload."""
        count = self.settings["num_requests"]
        table = pq.read_table(self.folder / self.settings["workload"])
        table = table.slice(0, count or None)
        columns = {
            name: table.column(name).to_numpy() for name in ("id", "arrival_ns", "n_in", "n_out")
        }
        order = np.argsort(columns["arrival_ns"], kind="stable")
        chains = [np.array(ids, np.int64) for ids in table.column("chain").to_pylist()]
        chains = [chains[row] for row in order]
        counts = np.array([len(ids) for ids in chains])
        begin = np.concatenate([[0], np.cumsum(counts)])
        return Requests.of(
            columns["n_in"][order],
            columns["n_out"][order],
            arrival_ns=columns["arrival_ns"][order],
            number=columns["id"][order],
            prefix=RecordedIds(CHAIN_TOKENS, begin, np.concatenate(chains), counts * CHAIN_TOKENS),
            source=self.name,
        )

    def expected(self) -> Expected:
        """What it gave; there are no requests if only the clock is known."""
        totals = dict(self.settings.get("totals", {}))
        totals.pop("source_wall_s", None)  # of the program that made the run
        rows: list[dict[str, Any]] = []
        path = self.folder / "expected" / f"{self.name}.parquet"
        if path.is_file():
            for row in pq.read_table(path).to_pylist():
                rows.append({
                    "id": row["id"], "queue": row["queue_ns"], "ttft": row["ttft_ns"],
                    "end": row["end_ns"], "gaps": row["itl_ns"],
                })  # fmt: skip
        elif not self.settings.get("clock_only"):
            rows = _derived_rows(self.folder).get(self.name, [])
        return Expected(self.settings["clock_ns"], totals, rows)


def gaps_check(gaps: list[int]) -> int:
    """The check sum of the gaps of a request."""
    return sum((place + 1) * gap for place, gap in enumerate(gaps)) % _MODULUS


def recorded_runs(folder: Path) -> Iterator[Case]:
    """Cases of one engine on one device, or on several that share its layers.

    Raises
    ------
    TraceError : the folder has no cases, or a file of a case cannot be read.
    """
    files = [folder / name for name in ("cases.json", "cases_extra.json")]
    if not any(file.is_file() for file in files):
        raise TraceError(f"{folder}: has no cases.json, expected recorded runs; name their folder")
    for file in files:
        if not file.is_file():
            continue
        for name, settings in json.loads(file.read_text("utf-8")).items():
            if _is_of_one_engine(folder, settings):
                yield Case(folder, name, settings)


def _is_of_one_engine(folder: Path, settings: Mapping[str, Any]) -> bool:
    """Whether the run is of one engine without other memories than host and device."""
    if {"cxl", "lower_tier", "pim"} & settings.keys() or len(settings["instances"]) > 1:
        return False
    instance = settings["instances"][0]
    if instance.get("pp", 1) > 1 or instance.get("ep", 1) > 1 or "role" in instance:
        return False
    if instance.get("weights", {"default": "local"}) != {"default": "local"}:
        return False
    profile = _profile(folder / instance["profile"])
    return not profile.expert_lines or (profile.tp == 1 and "expert_routing" not in settings)


@cache
def _profile(folder: Path) -> Profile:
    return read_profile(folder)


@cache
def _derived_rows(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The requests of cases without a file of their own."""
    found: dict[str, list[dict[str, Any]]] = {}
    for file in ("derived_requests.csv", "extra_requests.csv"):
        path = folder / file
        if not path.is_file():
            continue
        with path.open(newline="", encoding="utf-8") as stream:
            for row in csv.DictReader(stream):
                kept = {
                    "id": int(row["id"]), "queue": int(row["queue_ns"]),
                    "ttft": int(row["ttft_ns"]), "end": int(row["end_ns"]),
                }  # fmt: skip
                if "itl_check" in row:
                    kept["check"] = int(row["itl_check"])
                found.setdefault(row["case"], []).append(kept)
    return found
