"""What holds for all backends: arguments, and that all workers run the same software."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from stepsim.errors import SweepError
from stepsim.sweep import open_table, run_sweep
from stepsim.sweep.backends import LocalBackend
from stepsim.sweep.plan import versions
from tests.sweep.support import of_another_version, rows_of, tiny


def test_arguments_of_backends(tmp_path: Path) -> None:
    with pytest.raises(SweepError, match="the local backend has none"):
        run_sweep(tiny(), tmp_path / "a", address="tcp://127.0.0.1:1")
    with pytest.raises(SweepError, match="unknown backend 'slurm'; known are local, dask, ray"):
        run_sweep(tiny(), tmp_path / "b", backend="slurm")
    with pytest.raises(SweepError, match="jobs is 0"):
        run_sweep(tiny(), tmp_path / "c", jobs=0)


@pytest.mark.parametrize(("backend", "package"), [("dask", "distributed"), ("ray", "ray")])
def test_a_package_that_is_not_installed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str, package: str
) -> None:
    real = importlib.import_module

    def import_module(name: str, *rest: Any) -> Any:
        if name == package:
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(importlib, "import_module", import_module)
    with pytest.raises(SweepError, match=rf"{package} is not installed; pip install .*\[{backend}"):
        run_sweep(tiny(), tmp_path, backend=backend)


def test_rows_of_other_versions_are_refused_and_leave_no_trace(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    backend = LocalBackend(2, of_another_version)
    try:
        with pytest.raises(SweepError, match="install the same versions on the workers") as caught:
            run_sweep(tiny(), folder, backend=backend)
    finally:
        backend.close()
    message = str(caught.value)
    assert "chunk 0001-00001 was computed with" in message
    assert "'numba': '0.1'" in message
    assert f"'numba': '{versions()['numba']}'" in message
    # Nothing of the chunk, nothing half-written; what came before stays, and can be continued.
    parts = {path.name.split(".")[0] for path in (folder / "parts").iterdir()}
    assert "0001-00001" not in parts
    assert not list(folder.rglob("*.tmp"))
    kept = open_table(folder).count_rows()
    assert 0 < kept < 24
    assert run_sweep(tiny(), folder, resume=True).computed == 24 - kept
    run_sweep(tiny(), tmp_path / "undisturbed")
    assert rows_of(folder) == rows_of(tmp_path / "undisturbed")
