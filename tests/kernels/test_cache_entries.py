"""Stored machine code: all of it, or none."""

from __future__ import annotations

import logging
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from stepsim.kernels import engine
from stepsim.kernels.build import entries, entry_point
from stepsim.kernels.build.cache_key import cache_directory
from stepsim.kernels.build.entries import Code, EntryFiles, UnusableError, is_whole
from stepsim.kernels.build.entry_point import EntryPoint, cached_entry
from stepsim.kernels.build.settings import is_jit_disabled
from stepsim.simulation import warm_up
from tests.faults import Faults, MemoryFaults
from tests.samples import sampled

ROOT = Path(__file__).parents[2]
HEADER_BITS = 8 * (24 + 32 + 8 + 8 + 32)
FLIPS = 500

needs_compiler = pytest.mark.skipif(
    is_jit_disabled(), reason="NUMBA_DISABLE_JIT is set: nothing is compiled"
)


class Numbers(NamedTuple):
    words: Any


LAYOUT = Numbers(np.int64)


def twice(numbers: Numbers) -> int:
    return 2 * numbers.words[0]  # type: ignore[no-any-return]


def fresh_entry() -> EntryPoint:
    """The entry point as a new process would make it, compiled or loaded."""
    entry = cached_entry(twice, LAYOUT)
    assert entry(Numbers(np.array([21]))) == 42
    return entry


def is_loaded(entry: EntryPoint) -> bool:
    """Whether the code was stored; if not, it was compiled."""
    assert entry.origin is not None
    assert entry.origin.how in ("cached", "compiled")
    return entry.origin.how == "cached"


def is_stored() -> bool:
    return cached_entry(twice, LAYOUT).is_stored()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the cache, which is not there yet."""
    monkeypatch.setenv("STEPSIM_CACHE_DIR", str(tmp_path / "cache"))
    return cache_directory()


def stored(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path


@pytest.mark.slow
@needs_compiler
def test_second_entry_is_loaded(folder: Path) -> None:
    assert not is_stored()
    assert not is_loaded(fresh_entry())
    assert is_stored()
    assert is_whole(stored(folder))
    assert is_loaded(fresh_entry())


def _change(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        path.write_bytes(change(path.read_bytes()))

    return damage


def _to_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "file").touch()


def _to_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _to_other_key(path: Path) -> None:
    EntryFiles(path.parent, "other", "stamp").save("key", Code("shared", b"code"))
    (other,) = path.parent.glob("other*")
    other.replace(path)


def _replaced(path: Path, code: Code) -> None:
    """A whole file with the right key and other code."""
    place = cached_entry(twice, LAYOUT).places[-1]
    place.files.save(place.key, code)
    assert place.files.path(place.key) == path


def _without_the_function(path: Path) -> None:
    source = path.with_name("empty.c")
    source.write_text("int other;\n")
    library = path.with_name("empty.so")
    subprocess.run(["cc", "-shared", "-o", library, source], check=True)
    _replaced(path, Code("shared", library.read_bytes()))
    source.unlink()
    library.unlink()


WRONG_CODE = {
    "no-library": partial(_replaced, code=Code("shared", b"not a library")),
    "no-object": partial(_replaced, code=Code("object", b"not an object")),
    "no-function": _without_the_function,
}

ONE, TWO = Code("shared", b"one"), Code("object", b"two")

DAMAGE = {
    "empty": (_change(lambda data: b""), "cut off after 0 bytes"),
    "header-cut": (_change(lambda data: data[:40]), "cut off after 40 bytes"),
    "cut": (_change(lambda data: data[:-1]), "is damaged or cut off: it has"),
    "longer": (_change(lambda data: data + b"\0"), "is damaged or cut off: it has"),
    "other-version": (_change(lambda data: b"stepsim compiled code 0\n" + data[24:]), "version"),
    "scrambled": (_change(lambda data: bytes(b ^ 0x55 for b in data)), "of another version"),
    "other-key": (_to_other_key, "was compiled for something else"),
    **{name: (change, "") for name, change in WRONG_CODE.items()},
    "folder": (_to_folder, "is not a regular file"),
    "pipe": (_to_pipe, "is not a regular file"),
}


@needs_compiler
@pytest.mark.parametrize("kind", DAMAGE)
def test_what_is_not_as_stored_is_compiled_again_and_replaced(
    folder: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    fresh_entry()
    damage, reason = DAMAGE[kind]
    damage(stored(folder))
    assert is_stored() == (kind in WRONG_CODE)
    with caplog.at_level(logging.WARNING, logger="stepsim"):
        assert not is_loaded(fresh_entry())
    (record,) = caplog.records
    assert record.name == "stepsim"
    text = record.getMessage()
    assert text.startswith(f"compiled engine in {folder} cannot be used: ")
    assert text.endswith("; compiling it anew")
    assert reason in text
    caplog.clear()
    assert is_loaded(fresh_entry())
    assert not caplog.records


@needs_compiler
def test_what_another_user_stored_is_not_loaded(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real = os.fstat
    monkeypatch.setattr(
        os, "fstat", lambda handle: os.stat_result((*real(handle)[:4], 4242, *real(handle)[5:]))
    )
    fresh_entry()
    assert not is_stored()
    assert not is_loaded(fresh_entry())
    assert "belongs to user 4242; compiling it anew" in caplog.text


@needs_compiler
@pytest.mark.skipif(os.name != "posix", reason="files have no modes here")
@pytest.mark.parametrize("mode", [0o666, 0o664, 0o646])
def test_what_others_may_write_is_not_loaded(
    folder: Path, caplog: pytest.LogCaptureFixture, mode: int
) -> None:
    umask = os.umask(0)
    try:
        fresh_entry()
    finally:
        os.umask(umask)
    assert stored(folder).stat().st_mode & 0o777 == 0o644
    assert is_loaded(fresh_entry())
    stored(folder).chmod(mode)
    assert not is_stored()
    assert not is_loaded(fresh_entry())
    assert f"may be written by other users (mode {mode:04o}); compiling it anew" in caplog.text
    assert is_loaded(fresh_entry())


def _is_refused(function: Any, layouts: tuple[Any, ...], caplog: Any) -> bool:
    """Whether a load is refused with one warning, before anything of the file is loaded."""
    caplog.clear()
    with pytest.MonkeyPatch.context() as patch, caplog.at_level(logging.WARNING, logger="stepsim"):
        patch.setattr(entry_point, "loaded", lambda code: pytest.fail("loaded before checked"))
        return cached_entry(function, *layouts)._found() is None and len(caplog.records) == 1


def _flip(path: Path, bit: int) -> None:
    with path.open("r+b") as file:
        file.seek(bit // 8)
        (byte,) = file.read(1)
        file.seek(bit // 8)
        file.write(bytes([byte ^ 1 << bit % 8]))


@needs_compiler
@pytest.mark.parametrize(
    "draws", [pytest.param(60, id="few"), pytest.param(FLIPS, id="many", marks=pytest.mark.slow)]
)
def test_every_flipped_bit_is_noticed(
    folder: Path, caplog: pytest.LogCaptureFixture, draws: int
) -> None:
    fresh_entry()
    path = stored(folder)
    data = path.read_bytes()
    draw = random.Random(draws)
    bits = [*range(0, HEADER_BITS, 1 if draws == FLIPS else 7)]
    bits += [draw.randrange(8 * len(data)) for _ in range(draws)]
    for bit in bits:
        _flip(path, bit)
        assert _is_refused(twice, (LAYOUT,), caplog), bit
        _flip(path, bit)
    assert path.read_bytes() == data
    assert is_loaded(fresh_entry())


@pytest.mark.slow
@needs_compiler
def test_every_flipped_bit_of_the_engine_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    source = warm_up().path
    assert source is not None
    folder = tmp_path / source.parent.name
    folder.mkdir()
    path = Path(shutil.copy(source, folder))
    size = path.stat().st_size
    monkeypatch.setenv("STEPSIM_CACHE_DIR", str(tmp_path))
    layouts = (engine.LAYOUT, engine.BATCH_LAYOUT)
    assert cached_entry(engine.run.py_func, *layouts)._found() is not None
    draw = random.Random(1)
    for bit in [draw.randrange(8 * size) for _ in range(FLIPS // 2)]:
        _flip(path, bit)
        assert _is_refused(engine.run.py_func, layouts, caplog), bit
        _flip(path, bit)
    assert cached_entry(engine.run.py_func, *layouts)._found() is not None


@needs_compiler
def test_a_place_that_cannot_be_written_costs_only_the_compilation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    monkeypatch.setenv("STEPSIM_CACHE_DIR", str(blocked))
    with caplog.at_level(logging.WARNING, logger="stepsim"):
        assert not is_loaded(fresh_entry())
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 1
    assert messages[0].startswith(f"cannot store the compiled engine in {cache_directory()}: ")
    assert messages[0].endswith("or STEPSIM_CACHE_DIR names another")
    assert blocked.read_text() == "not a folder"


@needs_compiler
def test_a_file_in_the_place_of_the_folder_is_replaced(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder.parent.mkdir()
    folder.write_text("not a folder")
    assert not is_loaded(fresh_entry())
    (record,) = caplog.records
    assert "a file is in the place of the folder; compiling it anew" in record.getMessage()
    caplog.clear()
    assert is_loaded(fresh_entry())
    assert not caplog.records


def test_a_link_in_the_place_of_an_entry_is_replaced_and_not_followed(tmp_path: Path) -> None:
    files = EntryFiles(tmp_path / "cache", "name", "stamp")
    (tmp_path / "cache").mkdir()
    files.save(1, ONE)
    path = stored(tmp_path / "cache")
    notes = tmp_path / "notes.txt"
    notes.write_text("mine")
    path.unlink()
    path.symlink_to(notes)
    files.save(1, ONE)
    assert notes.read_text() == "mine"
    assert not path.is_symlink()
    assert files.load(1) == ONE


@needs_compiler
def test_every_call_and_line_that_fails_once_costs_only_a_compilation(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    code = cached_entry(twice, LAYOUT)
    code.make_ready()
    path = stored(folder)
    binary = code.places[-1].files.load(code.places[-1].key)
    assert binary is not None

    def store_and_load() -> None:
        code._stored(binary)
        code._found()

    with Faults(folder.parent) as clean:
        store_and_load()
    with MemoryFaults([entries]) as lines:
        store_and_load()
    assert not caplog.records
    disk = [partial(Faults, folder.parent, n) for n in range(len(clean.calls))]
    memory = [partial(MemoryFaults, [entries], n) for n in range(len(lines.lines))]
    warned = 0
    for before in ("there", "absent"):
        for fault, name in zip(disk + memory, clean.calls + lines.lines, strict=True):
            if before == "absent":
                path.unlink()
            caplog.clear()
            with fault():
                store_and_load()
            assert len(caplog.records) <= 1, name
            warned += len(caplog.records)
            assert all(is_whole(path) for path in folder.iterdir()), name
            assert code._stored(binary) == path, name
            assert is_loaded(fresh_entry()), name
    assert warned > len(disk + memory)


LITTLE_ROOM = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
from typing import Any, NamedTuple
import numpy as np
from stepsim.kernels.build.entry_point import cached_entry

class Numbers(NamedTuple):
    words: Any

def twice(numbers):
    return 2 * numbers.words[0]

print(cached_entry(twice, Numbers(np.int64))(Numbers(np.array([21]))))
"""


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("size", sampled([0, 50, 500], 50))
def test_a_disk_that_takes_no_more_costs_only_the_compilation(
    folder: Path, tmp_path: Path, size: int
) -> None:
    script = tmp_path / "script.py"
    script.write_text(LITTLE_ROOM)
    done = subprocess.run(
        [sys.executable, script, str(size)], cwd=ROOT, capture_output=True, text=True, check=True,
        # Python takes bytecode that it could write only in part for whole.
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    assert done.stdout == "42\n"
    assert "cannot store the compiled engine" in done.stderr
    assert "File too large" in done.stderr
    assert list(folder.iterdir()) == []


def test_one_key_one_file(tmp_path: Path) -> None:
    files = EntryFiles(tmp_path, "name", "stamp")
    files.save(1, ONE)
    files.save(2, TWO)
    assert (files.load(1), files.load(2), files.load(3)) == (ONE, TWO, None)
    assert EntryFiles(tmp_path, "name", "other stamp").load(1) is None
    others = [EntryFiles(tmp_path, name, "stamp") for name in ("other", "name.other", "name.0")]
    for other in others:
        other.save(1, TWO)
    assert files.load(1) == ONE
    assert [other.load(1) for other in others] == [TWO] * 3


def test_what_killed_writers_left_is_removed_by_the_next(tmp_path: Path) -> None:
    torn, under_way = (tmp_path / f".name.{16 * digit}.kernel.abc.tmp" for digit in "12")
    for path in (torn, under_way):
        path.write_bytes(b"half")
    os.utime(torn, (0, time.time() - 60))
    EntryFiles(tmp_path, "other", "stamp").save(1, TWO)
    assert torn.exists()
    EntryFiles(tmp_path, "name", "stamp").save(1, ONE)
    assert not torn.exists()
    assert under_way.exists()


def test_a_size_beyond_memory_is_refused_unread(tmp_path: Path) -> None:
    files = EntryFiles(tmp_path, "name", "stamp")
    files.save(1, ONE)
    os.truncate(stored(tmp_path), 1 << 42)
    with pytest.raises(UnusableError, match="it has 4398046511104 bytes, expected "):
        files.load(1)


MANY_WRITERS = """
import sys
from pathlib import Path
from stepsim.kernels.build.entries import Code, EntryFiles

files = EntryFiles(Path(sys.argv[1]), "name", "stamp")
for number in range(30):
    files.save("key", Code("shared", sys.argv[2].encode() * 50_000))
    letters = files.load("key").binary
    assert len(letters) == 50_000 and len(set(letters)) == 1
"""


def test_processes_that_write_and_read_at_once_see_whole_files(tmp_path: Path) -> None:
    writers = [
        subprocess.Popen([sys.executable, "-c", MANY_WRITERS, tmp_path, name], cwd=ROOT)
        for name in ("a", "b", "c")
    ]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    assert is_whole(stored(tmp_path))
