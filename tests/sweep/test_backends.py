"""What holds for all backends, as that all workers run the same software."""

from __future__ import annotations

import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from stepsim.errors import SweepError
from stepsim.sweep import open_table, run_sweep
from stepsim.sweep.backends import LocalBackend
from stepsim.sweep.planning.plan import Chunk, versions
from stepsim.sweep.running.work import ChunkRows, execute_chunk
from tests.sweep.support import of_another_version, rows_of, timings, tiny


@pytest.mark.parametrize(("backend", "package"), [("dask", "distributed"), ("ray", "ray")])
def test_a_package_that_is_not_installed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(SweepError, match=rf"{package}, which is not installed: .*\[{backend}"):
        run_sweep(tiny(), tmp_path, backend=backend)


@pytest.mark.long
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


class _Failing:
    """Computes two chunks at a time, and then cannot be asked any more."""

    ahead = 2

    def __init__(self, fails: str) -> None:
        self._fails = fails
        self._chunks: list[Chunk] = []

    def submit(self, chunk: Chunk) -> int:
        if len(self._chunks) == 2:
            self._fail("submit")
        self._chunks.append(chunk)
        return len(self._chunks) - 1

    def wait(self, handles: Collection[Any]) -> Collection[Any]:
        return list(handles)

    def result(self, handle: int) -> ChunkRows:
        if handle == 1:
            self._fail("result")
        return execute_chunk(self._chunks[handle])

    def close(self) -> None:
        pass

    def _fail(self, what: str) -> None:
        if self._fails == what:
            raise SweepError("the scheduler is gone")


@pytest.mark.parametrize(("fails", "kept"), [("submit", 6), ("result", 4)])
def test_what_came_before_a_failure_of_the_backend_is_kept(
    tmp_path: Path, fails: str, kept: int
) -> None:
    with pytest.raises(SweepError, match="the scheduler is gone"):
        run_sweep(tiny(), tmp_path, backend=_Failing(fails))
    assert open_table(tmp_path).count_rows() == kept


@pytest.mark.slow
def test_a_worker_stays_with_the_design_point_it_has_prepared(tmp_path: Path) -> None:
    run_sweep(tiny(chunk=1), tmp_path, jobs=2)
    prepared = {(record["chunk"].split("-")[0], record["process"]) for record in timings(tmp_path)}
    # Four design points; only the last of them may be shared.
    assert 4 <= len(prepared) <= 5
