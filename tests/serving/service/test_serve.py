"""``st.serve`` with simple parts: results, folder, resumption, and what is refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import stepsim as st
from stepsim.errors import ServingError
from stepsim.serving import ServeResult, serve
from stepsim.serving.requests.requests import Requests
from stepsim.serving.scheduling.interface import Batch
from stepsim.serving.service import serve as module
from stepsim.serving.service.spec import located
from stepsim.serving.steps.interface import StepTime
from tests.serving.service.doubles import OneByOne, PerToken, three

_FILES = ("requests.parquet", "steps.parquet", "summary.json")


def _serve(requests: Requests, **more: Any) -> ServeResult:
    parts: dict[str, Any] = {"scheduler": partial(OneByOne, requests), "steps": PerToken}
    return serve(trace=requests, **(parts | more))


def test_summary_has_the_metrics_and_what_they_depend_on() -> None:
    summary = _serve(three(), slo="ttft=1ms,tpot=50ms", host="7ns").summary
    assert summary["metrics"]["completed"] == 3
    assert summary["metrics"]["duration_s"] == 864e-9
    assert summary["metrics"]["e2el_mean_ms"] == pytest.approx((277 + 160 + 364) / 3 * 1e-6)
    assert summary["metrics"]["good_share"] == 1
    assert summary["settings"]["host"] == "7ns"
    assert summary["settings"]["slo"] == "ttft=1ms,tpot=50ms,share=0.99"
    assert summary["versions"]["stepsim"] == st.__version__


def test_folder_is_that_of_memory(tmp_path: Path) -> None:
    made = _serve(three(), out=tmp_path / "a")
    read = ServeResult.read(tmp_path / "a")
    assert read.requests.equals(made.requests)
    assert read.steps.equals(made.steps)
    assert read.summary == json.loads(json.dumps(made.summary))
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == sorted(
        [*_FILES, "service.json"]
    )


def test_a_folder_is_not_overwritten(tmp_path: Path) -> None:
    _serve(three(), out=tmp_path / "a")
    with pytest.raises(ServingError, match="has a service already"):
        _serve(three(), out=tmp_path / "a")
    with pytest.raises(ServingError, match="differs in settings"):
        _serve(three(), out=tmp_path / "a", resume=True, host="1us")
    assert _serve(three(), out=tmp_path / "a", resume=True).metrics["completed"] == 3


class _Ends(PerToken):
    """Ends like a killed process in the step before the last one."""

    def time(self, step: int, batch: Batch) -> StepTime:
        if step == 4:
            raise KeyboardInterrupt
        return super().time(step, batch)


class _Counts(PerToken):
    """Knows which steps were simulated."""

    simulated: list[int]

    def time(self, step: int, batch: Batch) -> StepTime:
        self.simulated.append(step)
        return super().time(step, batch)


def test_resumed_service_simulates_the_rest_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SAVE_SECONDS", 0.0)
    whole = _serve(three(), out=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        _serve(three(), out=tmp_path / "part", steps=_Ends)
    text = (tmp_path / "part" / "service.json").read_text().replace("_Ends", "_Counts")
    (tmp_path / "part" / "service.json").write_text(text)
    _Counts.simulated = []
    resumed = _serve(three(), out=tmp_path / "part", resume=True, steps=_Counts)
    assert _Counts.simulated == [4]
    assert resumed.requests.equals(whole.requests)
    assert resumed.steps.equals(whole.steps)


_KILLED = """
import os, signal, sys
from functools import partial
import numpy as np
from stepsim.serving import serve
from stepsim.serving.requests.requests import Requests
from stepsim.serving.service import serve as module
from tests.serving.service.doubles import OneByOne, PerToken

module._SAVE_SECONDS = 0.0

class Steps(PerToken):
    def time(self, step, batch):
        if step == int(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().time(step, batch)

lengths = np.random.default_rng(0).integers(1, 9, (2, 40))
requests = Requests.of(*lengths, arrival_ns=np.arange(40) * 300)
serve(trace=requests, scheduler=partial(OneByOne, requests), steps=Steps, out=sys.argv[1],
      resume=sys.argv[3] == "resume")
"""


@pytest.mark.long
def test_killed_service_goes_on_without_loss(tmp_path: Path) -> None:
    def start(folder: str, at: int, how: str = "new") -> int:
        code = [sys.executable, "-c", _KILLED, str(tmp_path / folder), str(at), how]
        return subprocess.run(code, check=False, env=dict(os.environ)).returncode

    assert start("whole", -1) == 0
    assert start("killed", 20) == -signal.SIGKILL
    assert start("killed", 77, "resume") == -signal.SIGKILL
    assert start("killed", -1, "resume") == 0
    for name in _FILES:
        killed, whole = (tmp_path / folder / name for folder in ("killed", "whole"))
        assert killed.read_bytes() == whole.read_bytes(), name


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"slo": "ttft=1"}, "no unit"),
        ({"rate": 0.0}, "above 0"),
        ({"scheduler": "vlm", "num_blocks": 99}, "unknown scheduler 'vlm'"),
        ({"clock": "sundial"}, "unknown clock 'sundial'"),
        ({"users": 3}, "users: has no effect"),
        ({"overrides": {"clock_ghz": 1}}, "without a machine"),
        ({"arrivals": "gamma", "rate": 1.0}, "burstiness: missing"),
        ({"host": 5}, "without a unit"),
        ({"trase": "x"}, "trase: unknown"),
    ],
)
def test_refused_before_anything_runs(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(st.StepSimError, match=message):
        _serve(three(), **wrong)


def test_settings_of_a_source_are_named() -> None:
    with pytest.raises(
        st.StepSimError,
        match=r"source fixed: unknown setting counts; did you mean 'count'\? Its settings are",
    ):
        st.serve(source="fixed:counts=5", rate=1.0, steps="linear:1000000", num_blocks=99)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"steps": "exact"}, {"steps": "exact"}),
        (
            {"steps": "table:profile,host_gbps=64"},
            {"steps": "table:{folder}/profile,host_gbps=64"},
        ),
        ({"steps": "table:elsewhere,host_gbps=64"}, {"steps": "table:elsewhere,host_gbps=64"}),
        ({"machine": "exact"}, {"machine": "{folder}/exact"}),
    ],
)
def test_files_beside_a_specification_are_found_and_names_are_kept(
    given: dict[str, str], expected: dict[str, str], tmp_path: Path
) -> None:
    for name in ("exact", "profile"):
        (tmp_path / name).mkdir()
    found = {name: text.format(folder=tmp_path) for name, text in expected.items()}
    assert located(given, tmp_path) == found
