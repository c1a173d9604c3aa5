"""Timelines of services for ui.perfetto.dev, read back."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from stepsim.errors import ArgError, OutputError
from stepsim.report import write_service_perfetto
from stepsim.report.serving.series import with_spans
from stepsim.report.serving.stages import lanes_of
from stepsim.serving import ServeResult
from stepsim.serving.answers.breakdown import breakdowns
from stepsim.serving.service.tables import steps_of
from tests.report.read_back import ReadBack

STAGE = {
    "waiting": "queueing", "prefill": "prefill", "decode": "decode",
    "recomputation": "recomputation", "preempted": "not scheduled",
    "not scheduled": "not scheduled", "preempted or not scheduled": "not scheduled",
}  # fmt: skip


@pytest.mark.slow
def test_stages_of_requests_are_those_of_the_explanation(
    service: ServeResult, tmp_path: Path
) -> None:
    made = write_service_perfetto(service, tmp_path / "t.pftrace")
    assert made.remark == ""
    assert made.nbytes == (tmp_path / "t.pftrace").stat().st_size
    found = ReadBack(tmp_path / "t.pftrace")
    known, _ = with_spans(service)
    engines = [steps_of(service.steps, k) for k in range(len(set(_replicas(service))))]
    expected = dict(zip(known.requests["request"].to_pylist(), breakdowns(known.requests, engines),
                        strict=True))  # fmt: skip
    seen = 0
    for uuid, slices in found.of_track.items():
        if not found.tracks[uuid].name.startswith("requests "):
            continue
        whole = sorted(one for one in slices if one[2].startswith("request "))
        for begin, end, name in whole:
            spent: dict[str, int] = defaultdict(int)
            for first, after, stage in slices:
                if stage in STAGE and begin <= first and after <= end:
                    spent[STAGE[stage]] += after - first
            one = expected[int(name.removeprefix("request "))]
            assert one is not None
            parts: dict[str, float] = defaultdict(float)
            for part in one.parts:
                parts[part.stage] += part.ns
            assert dict(spent) == dict(parts)
            assert sum(spent.values()) == end - begin
            seen += 1
    assert seen == service.requests.num_rows


def _replicas(service: ServeResult) -> list[int]:
    found: list[int] = service.requests["replica"].to_pylist()
    return found


@pytest.mark.slow
def test_steps_have_their_numbers_and_arrows(service: ServeResult, tmp_path: Path) -> None:
    made = write_service_perfetto(service, tmp_path / "t.pftrace")
    found = ReadBack(tmp_path / "t.pftrace")
    rows = service.steps.to_pylist()
    tracks = {
        uuid: int(found.path(uuid)[0].removeprefix("replica "))
        for uuid, one in found.tracks.items()
        if one.name == "steps"
    }
    notes = {(tracks[uuid], at): n for uuid, at, _, n in found.notes if uuid in tracks}
    assert len(notes) == len(rows)
    for row in rows:
        assert notes[row["replica"], row["start_ns"]] == {
            "new tokens": row["new_tokens"], "cached tokens": row["context_tokens"],
            "requests": row["batch_requests"], "running": row["running_requests"],
            "waiting": row["waiting_requests"], "free blocks": row["free_blocks"],
        }  # fmt: skip
    assert len(found.flows) == made.arrows >= service.requests.num_rows
    for (source, left), (target, came) in found.flows.values():
        assert source.startswith("requests ")
        assert (target, left) == ("steps", came)


def test_preempted_requests_are_seen(preempting: ServeResult, tmp_path: Path) -> None:
    write_service_perfetto(preempting, tmp_path / "t.pftrace")
    found = ReadBack(tmp_path / "t.pftrace")
    names = [name for slices in found.slices.values() for _, _, name, _ in slices]
    lost = sum(1 for name in names if name.startswith("preempted"))
    assert lost >= preempting.metrics["served_preemptions"] > 0
    assert max(value for _, value in found.counts["waiting"]) == max(
        preempting.steps["waiting_requests"].to_pylist()
    )
    assert found.facts["KV blocks"] == preempting.summary["kv_blocks"]


@pytest.mark.slow
@pytest.mark.parametrize("limit", [60_000, 20_000])
def test_a_file_keeps_within_its_limit(several: ServeResult, tmp_path: Path, limit: int) -> None:
    whole = write_service_perfetto(several, tmp_path / "whole.pftrace")
    made = write_service_perfetto(several, tmp_path / "t.pftrace", limit_bytes=limit)
    assert whole.nbytes > limit >= made.nbytes > limit / 10
    assert made.grain_ns > 1
    assert made.request_stride > 1
    assert "requests is shown" in made.remark
    found = ReadBack(tmp_path / "t.pftrace")
    assert found.facts["sampling"] == made.remark
    steps = sum(n.get("steps", 1) for uuid, _, _, n in found.notes
                if found.tracks[uuid].name == "steps")  # fmt: skip
    assert steps == several.steps.num_rows


def test_bad_limits_and_files_are_named(preempting: ServeResult, tmp_path: Path) -> None:
    with pytest.raises(ArgError, match="limit_bytes: expected a number above 0, found 0"):
        write_service_perfetto(preempting, tmp_path / "t", limit_bytes=0)
    with pytest.raises(OutputError, match="the limit is 1,000; allow more"):
        write_service_perfetto(preempting, tmp_path / "t", limit_bytes=1000)
    with pytest.raises(OutputError, match="cannot write"):
        write_service_perfetto(preempting, tmp_path / "no" / "t")
    assert list(tmp_path.iterdir()) == []


def test_lanes_are_few_and_do_not_overlap() -> None:
    generator = np.random.default_rng(3)
    begins = np.sort(generator.integers(0, 500, 200))
    ends = begins + generator.integers(0, 30, 200)
    lanes = np.array(lanes_of(begins.tolist(), ends.tolist()))
    most = max(int(((begins <= at) & (at < ends)).sum()) for at in range(540))
    for lane in range(int(lanes.max()) + 1):
        own = lanes == lane
        assert (begins[own][1:] >= ends[own][:-1]).all()
    assert most <= lanes.max() + 1 <= most + 1
