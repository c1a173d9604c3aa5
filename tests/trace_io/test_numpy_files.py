"""Arrays in NumPy files: how much of them is in memory, and what is said of unreadable ones."""

from __future__ import annotations

import errno
import io
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

from stepsim.errors import TraceError
from stepsim.trace_io import import_trace, read_routing
from stepsim.trace_io.sources import numpy as numpy_source
from stepsim.trace_io.sources.numpy import open_array
from tests.trace_io import foreign

IDS = foreign.routing(300)


class FullDisk(io.BytesIO):
    """A temporary file on a full disk; closing it tries to write once more."""

    def write(self, _) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    def close(self) -> None:
        super().close()
        raise OSError(errno.ENOSPC, "No space left on device")


def archive(path: Path, ids: np.ndarray = IDS, more: bytes = b"") -> Path:
    """A .npz file, in Fortran order, with bytes after the array."""
    data = io.BytesIO()
    np.save(data, np.asfortranarray(ids))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("data.npy", data.getvalue() + more)
    return path


# --- Memory


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("layer", [None, 1])
def test_rows_are_read_in_windows(tmp_path, monkeypatch, layer, order):
    np.save(tmp_path / "x.npy", np.asarray(IDS, order=order))
    monkeypatch.setattr(numpy_source, "_WINDOW_BYTES", 240)
    array = open_array(tmp_path / "x.npy", "npy")
    wanted = IDS if layer is None else IDS[:, layer]
    assert array.read(100, 150, layer).tolist() == wanted[100:250].tolist()
    assert np.concatenate(list(array.blocks(240))).tolist() == IDS.tolist()
    assert max(block.nbytes for block in array.blocks(240)) == 240


def test_large_arrays_of_an_archive_are_unpacked_to_a_file(tmp_path, monkeypatch):
    made = []
    real = tempfile.TemporaryFile

    def temporary():
        made.append(real())
        return made[-1]

    monkeypatch.setattr(tempfile, "TemporaryFile", temporary)
    path = archive(tmp_path / "x.npz", more=bytes(1 << 20))
    size = IDS.nbytes + 128
    monkeypatch.setattr(numpy_source, "_WINDOW_BYTES", 1000)
    for limit, files in ((size, 0), (size - 1, 1)):
        monkeypatch.setattr(numpy_source, "_MAX_UNPACKED_BYTES", limit)
        found = open_array(path, "npz", "data")
        assert found.read(layer=1).tolist() == IDS[:, 1].tolist()
        assert found.read(layer=2).tolist() == IDS[:, 2].tolist()
        assert len(made) == files
    # What follows the array in the archive is not unpacked.
    assert made[0].seek(0, io.SEEK_END) == size


# --- What cannot be read


def test_the_row_of_a_missing_value(tmp_path):
    np.save(tmp_path / "x.npy", np.array([[0.0, 1.0], [np.nan, 2.0]]))
    with pytest.raises(TraceError, match=r"are float64, expected integers \(row 1 holds nan\)"):
        read_routing(tmp_path / "x.npy")


@pytest.mark.parametrize("dims", [2, 3])
def test_weights_of_another_shape(tmp_path, dims):
    ids = IDS[:, 0] if dims == 2 else IDS
    path = tmp_path / "x.npz"
    np.savez(path, experts=ids, weights=np.ones(ids.shape[1:]))
    says = f"{path}: weights have shape {ids.shape[1:]}, the expert ids {ids.shape}; each expert"
    for read in (read_routing, lambda source: import_trace(source, tmp_path / "out")):
        with pytest.raises(TraceError) as caught:
            read(path)
        assert str(caught.value).startswith(says)


def test_a_checksum_is_compared(tmp_path):
    path = archive(tmp_path / "x.npz")
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as file:
        checksum = file.getinfo("data.npy").CRC
    at = data.rindex(checksum.to_bytes(4, "little"))
    data[at] ^= 1
    path.write_bytes(data)
    with pytest.raises(TraceError, match=r"the npz file is damaged \(Bad CRC-32 for file 'data"):
        read_routing(path, layer=0)


def test_a_full_disk_is_no_damage(tmp_path, monkeypatch):
    path = archive(tmp_path / "x.npz")
    monkeypatch.setattr(numpy_source, "_MAX_UNPACKED_BYTES", 0)
    monkeypatch.setattr(tempfile, "tempdir", "/some/folder")
    monkeypatch.setattr(tempfile, "TemporaryFile", FullDisk)
    with pytest.raises(TraceError) as caught:
        read_routing(path, layer=0)
    assert str(caught.value) == (
        f"{path}: the array `data` needs {IDS.nbytes + 128} bytes in the folder of temporary files "
        "(/some/folder), which cannot be written (No space left on device); make room there, or "
        "name another folder in the environment variable TMPDIR"
    )


def test_no_folder_of_temporary_files(tmp_path, monkeypatch):
    path = archive(tmp_path / "x.npz")
    monkeypatch.setattr(numpy_source, "_MAX_UNPACKED_BYTES", 0)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    with pytest.raises(TraceError, match=r"missing\), which cannot be written \(No such file or"):
        import_trace(path, tmp_path / "out.parquet")


@pytest.mark.parametrize("kind", ["npy", "npz"])
def test_a_file_that_goes_away(tmp_path, kind):
    path = tmp_path / f"x.{kind}"
    if kind == "npy":
        np.save(path, IDS)
    else:
        archive(path)
    found = open_array(path, kind, "data")
    path.unlink()
    says = r"cannot be read \(No such file or directory\); check the path and its permissions"
    with pytest.raises(TraceError, match=says):
        found.read()
    with pytest.raises(TraceError, match=says):
        next(found.blocks(10))
    with pytest.raises(TraceError, match=says):
        open_array(path, kind, "data")


def test_other_files_in_an_archive_are_no_arrays(tmp_path):
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("README.txt", "x")
    with pytest.raises(TraceError, match=r"holds 0 arrays \(none\), expected a single one"):
        read_routing(path)
    archive(path)
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("README.txt", "x")
    assert read_routing(path, layer=1).tokens == len(IDS)
