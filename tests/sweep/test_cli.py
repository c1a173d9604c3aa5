"""``stepsim sweep``, ``pareto``, ``compare`` and ``query`` as typed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from stepsim.cli.main import main
from stepsim.sweep import open_table
from tests.sweep.support import tiny


def stepsim(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    code = ended.value.code
    assert isinstance(code, int)
    return code, out, err


def write(folder: Path, **changes: Any) -> Path:
    path = folder / "sweep.yaml"
    path.write_text(yaml.safe_dump(tiny(**changes)))
    return path


def test_dry_run_counts_and_estimates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = stepsim(capsys, "sweep", write(tmp_path), "--dry-run", "--json")
    assert code == 0
    assert "24 runs: 4 design points x 6 traces; about " in err
    record = json.loads(out)
    assert (record["runs"], len(record["design_points"])) == (24, 4)
    assert record["estimated_seconds"] > 0
    assert [path.name for path in tmp_path.iterdir()] == ["sweep.yaml"]


def test_a_sweep_and_what_looks_at_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "out"
    code, out, err = stepsim(capsys, "sweep", write(tmp_path), "--out", folder)
    assert code == 0
    assert "24 of 24 runs simulated, 0 failures" in out
    assert "24 of 24 runs" in err
    assert open_table(folder).count_rows() == 24

    code, out, _ = stepsim(capsys, "sweep", write(tmp_path), "--out", folder, "--resume", "--json")
    assert (code, json.loads(out)["computed"]) == (0, 0)

    code, out, _ = stepsim(capsys, "pareto", folder, "--x", "onchip_bytes", "--y", "cycles")
    assert (code, out.count("tile=")) == (0, 4)
    assert "yes" in out
    code, out, _ = stepsim(capsys, "compare", folder, folder, "--rows", "2")
    assert code == 0
    assert "24 runs in both, 0 larger, 0 smaller, 24 equal, geometric mean 1.0000" in out
    code, out, _ = stepsim(capsys, "query", folder, "select count(*) as n from runs", "--json")
    assert (code, json.loads(out)) == (0, {"rows": [{"n": 24}]})


def test_failures_give_exit_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = write(tmp_path, limits={"max_cycles": 5})
    code, out, _ = stepsim(capsys, "sweep", spec, "--out", tmp_path / "out")
    assert code == 1
    assert "24 failures (table failures):\n  24 x limit" in out


def test_traces_that_cannot_be_used_are_named_before_the_first_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = [[0, 1], [2, 3]], [[4, 5], [1, 9]]  # two tokens of a layer
    np.save(tmp_path / "some.npy", np.stack([good, *[bad] * 7], axis=1))
    np.save(tmp_path / "all.npy", np.stack([bad] * 2, axis=1))

    spec = write(tmp_path, traces={"files": [str(tmp_path / "some.npy")]})
    code, _, err = stepsim(capsys, "sweep", spec, "--dry-run")
    assert code == 0
    assert "8 traces (7 of them cannot be used)" in err
    assert err.count("expert id 9 is out of range") == 5
    assert "and 2 more" in err

    spec = write(tmp_path, traces={"files": [str(tmp_path / "all.npy")]})
    code, _, err = stepsim(capsys, "sweep", spec, "--out", tmp_path / "out")
    assert code == 2
    assert "none of 2 can be used" in err
    assert err.count("expert id 9 is out of range") == 2
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["sweep", "{spec}"], "--out: missing"),
        (["sweep", "absent.yaml", "--dry-run"], "cannot be read"),
        (["pareto", "{spec}"], "holds no sweep"),
        (["query", "nowhere", "select 1"], "holds no sweep"),
        (["compare", "nowhere", "nowhere"], "holds no sweep"),
    ],
)
def test_bad_input_gives_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], expected: str
) -> None:
    spec = write(tmp_path)
    code, out, err = stepsim(capsys, *(argument.format(spec=spec) for argument in arguments))
    assert (code, out) == (2, "")
    assert expected in err
