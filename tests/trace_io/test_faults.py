"""Whatever call fails, once, an import that is repeated writes the same bytes."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from stepsim.errors import OutputError
from stepsim.trace_io import importing, writer
from stepsim.trace_io.importing import import_trace
from stepsim.trace_io.writer import ParquetStream
from tests.faults import Faults, MemoryFaults
from tests.samples import sampled

ROOT = Path(__file__).parents[2]
OLD = b"what was there"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Routing of 3 layers, 2 tokens each, k = 2."""
    path = tmp_path / "routing.npy"
    np.save(path, np.array([[[0, 1], [2, 3]], [[4, 5], [1, 0]], [[1, 2], [3, 5]]]))
    return path


@pytest.fixture
def expected(source: Path, tmp_path: Path) -> bytes:
    """The bytes of an undisturbed import; what follows need not load anything more."""
    out = tmp_path / "expected.parquet"
    import_trace(source, out)
    return out.read_bytes()


def _left(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_every_call_that_fails_once_leaves_what_was_there(
    source: Path, tmp_path: Path, expected: bytes
) -> None:
    folder = tmp_path / "clean"
    folder.mkdir()
    with Faults(folder) as clean:
        import_trace(source, folder / "out")
    assert {"write_table", "close"} < set(clean.calls)
    for number, name in enumerate(clean.calls):
        call = f"call {number}: {name}"
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "out").write_bytes(OLD)
        # Of what is temporary and gone already, nothing is to be said.
        harmless = name.startswith("unlink .")
        expectation = (
            nullcontext() if harmless else pytest.raises(OutputError, match="cannot write")
        )
        with Faults(folder, number) as faults, expectation:
            import_trace(source, folder / "out")
        assert _left(folder) == {"out": expected if harmless else OLD}, call
        assert faults.failed, call
        import_trace(source, folder / "out")
        assert _left(folder) == {"out": expected}, call


@pytest.mark.slow
def test_memory_that_ends_at_any_line_leaves_what_was_there_or_all(
    source: Path, tmp_path: Path, expected: bytes
) -> None:
    modules = (importing, writer)
    with MemoryFaults(modules) as clean:
        import_trace(source, tmp_path / "clean")
    # The first line is the one that begins to catch it.
    for number, line in list(enumerate(clean.lines))[1:]:
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "out").write_bytes(OLD)
        with MemoryFaults(modules, number), pytest.raises(OutputError, match="not enough memory"):
            import_trace(source, folder / "out")
        assert _left(folder) in ({"out": OLD}, {"out": expected}), line
        import_trace(source, folder / "out")
        assert _left(folder) == {"out": expected}, line


def test_every_row_group_that_fails_once_leaves_what_was_there(tmp_path: Path) -> None:
    table = pa.table({"a": np.arange(10)})

    def write(path: Path) -> None:
        with ParquetStream(path, row_group_rows=4) as file:
            file.write(table)
            file.write(table)

    folder = tmp_path / "clean"
    folder.mkdir()
    with Faults(folder) as clean:
        write(folder / "out")
    assert clean.calls.count("write_table") == 5
    for number, name in enumerate(clean.calls):
        folder = tmp_path / str(number)
        folder.mkdir()
        if name.startswith("unlink ."):
            continue
        with Faults(folder, number), pytest.raises(OutputError):
            write(folder / "out")
        assert _left(folder) == {}, name


IMPORT = """
import resource, sys
from stepsim.errors import OutputError
from stepsim.trace_io.importing import import_trace
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]),) * 2)
try:
    import_trace(sys.argv[1], sys.argv[2])
except OutputError as error:
    print(error)
"""


@pytest.mark.slow
@pytest.mark.parametrize("size", sampled([0, 3, 500], 3))
def test_a_disk_that_takes_no_more(
    source: Path, tmp_path: Path, expected: bytes, size: int
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", IMPORT, source, folder / "out", str(size)],
        cwd=ROOT, capture_output=True, text=True, check=True,
        # Python takes bytecode that it could write only in part for whole.
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    assert f"cannot write {folder / 'out'}: " in done.stdout
    assert "File too large" in done.stdout
    assert _left(folder) == {}
    import_trace(source, folder / "out")
    assert _left(folder) == {"out": expected}
