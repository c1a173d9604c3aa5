"""The compilation cache is never stale."""

from __future__ import annotations

import ctypes
import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest
from numba.core import event

import stepsim as st
import stepsim.kernels
from stepsim.kernels.build import settings
from stepsim.kernels.build.cache_key import cache_directory, source_digest
from stepsim.kernels.build.entry_point import cached_entry
from stepsim.kernels.build.settings import compiler_versions, is_jit_disabled
from tests.samples import sampled

KERNELS = Path(stepsim.kernels.__file__).parent
SOURCES = sorted(path.relative_to(KERNELS).as_posix() for path in KERNELS.rglob("*.py"))

needs_compiler = pytest.mark.skipif(
    is_jit_disabled(), reason="NUMBA_DISABLE_JIT is set: nothing is compiled"
)


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy of the kernel sources."""
    folder = tmp_path / "kernels"
    shutil.copytree(KERNELS, folder, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def test_unchanged_sources_keep_the_digest(copied: Path) -> None:
    assert source_digest(copied) == source_digest(copied) == source_digest()


def test_files_that_are_not_source_do_not_count(copied: Path) -> None:
    before = source_digest(copied)
    (copied / "__pycache__").mkdir()
    (copied / "__pycache__" / "engine.cpython-311.pyc").write_bytes(b"compiled")
    (copied / "notes.txt").write_text("not a kernel")
    assert source_digest(copied) == before


ONE_OF_EACH_FOLDER = {Path(name).parent: name for name in SOURCES}.values()


@pytest.mark.parametrize("name", sampled(SOURCES, *ONE_OF_EACH_FOLDER))
def test_one_byte_in_any_kernel_file_changes_the_digest(copied: Path, name: str) -> None:
    before = source_digest(copied)
    path = copied / name
    path.write_bytes(path.read_bytes() + b"\n")
    assert source_digest(copied) != before


def test_added_removed_and_renamed_files_change_the_digest(copied: Path) -> None:
    seen = {source_digest(copied)}
    added = copied / "units" / "extra.py"
    added.write_text("")
    seen.add(source_digest(copied))
    added.rename(copied / "units" / "renamed.py")
    seen.add(source_digest(copied))
    (copied / "units" / "renamed.py").rename(copied / "renamed.py")
    seen.add(source_digest(copied))
    (copied / "renamed.py").unlink()
    (copied / "queues.py").unlink()
    seen.add(source_digest(copied))
    assert len(seen) == 5


def test_moving_text_between_files_changes_the_digest(copied: Path) -> None:
    # The boundary between two files that are read one after the other.
    first, second = copied / "a.py", copied / "b.py"
    first.write_text("x")
    second.write_text("yz")
    before = source_digest(copied)
    first.write_text("xy")
    second.write_text("z")
    assert source_digest(copied) != before


@pytest.mark.parametrize("package", ["numba", "llvmlite", "numpy"])
def test_versions_change_the_digest(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = source_digest()
    monkeypatch.setitem(compiler_versions(), package, "0.0.1")
    assert source_digest() != before


def test_versions_are_those_of_the_packages() -> None:
    code = (
        "import sys; from stepsim.kernels.build.settings import compiler_versions as told;"
        "print(told(), 'numba' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    versions = {name: sys.modules[name].__version__ for name in ("numba", "llvmlite", "numpy")}
    assert done.stdout == f"{versions} False\n"


def test_settings_are_the_same_before_and_after_numba_is_imported() -> None:
    for name, (_, value) in settings._DEFAULTS.items():
        assert repr(getattr(numba.config, name)) == value, name


def test_place_of_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"kernels-{source_digest()[:20]}"
    monkeypatch.setenv("STEPSIM_CACHE_DIR", str(tmp_path / "mine"))
    assert cache_directory() == tmp_path / "mine" / name
    monkeypatch.delenv("STEPSIM_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_directory() == tmp_path / "xdg" / "stepsim" / name
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_directory() == tmp_path / ".cache" / "stepsim" / name


absolute = ctypes.CDLL(None).abs
absolute.argtypes, absolute.restype = [ctypes.c_int], ctypes.c_int


class Numbers(NamedTuple):
    words: Any


def calls_c(numbers: Numbers) -> int:
    return absolute(numbers.words[0])


@needs_compiler
def test_code_that_refers_to_the_process_is_not_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("STEPSIM_CACHE_DIR", str(tmp_path))
    with caplog.at_level(logging.WARNING, logger="stepsim"):
        entry = cached_entry(calls_c, Numbers(np.int64))
        assert entry(Numbers(np.array([-3]))) == 3
    assert "it is not stored" in caplog.text
    assert not entry.is_stored()


TINY_RUN = """
import stepsim
from stepsim.kernels.engine import run
from stepsim.lowering import ChannelSpec, Network, UnitSpec
from stepsim.simulation import simulate_network

units = (
    UnitSpec("load", "OffChipLoad", (), (0,), {"tile": [1, 1], "view": [1], "par": 1, "bpe": 2}),
    UnitSpec("store", "OffChipStore", (0,), (), {"tile": [1, 1], "par": 1}),
)
cached = run.is_stored()
result = simulate_network(Network(units, (ChannelSpec("tiles", 2),)))
print(stepsim.__file__, cached, result.cycles)
"""


@pytest.mark.long
@needs_compiler
def test_an_edit_in_another_kernel_file_is_never_missed(tmp_path: Path) -> None:
    package = tmp_path / "stepsim"
    shutil.copytree(
        KERNELS.parent, package, ignore=shutil.ignore_patterns("__pycache__")
    )  # fmt: skip
    cache = tmp_path / "cache"
    if cache_directory().is_dir():  # saves one compilation: the copy has the same digest
        shutil.copytree(cache_directory(), cache / cache_directory().name)
    environment = {
        **os.environ, "PYTHONPATH": str(tmp_path), "STEPSIM_CACHE_DIR": str(cache)
    }  # fmt: skip

    def run() -> tuple[bool, int]:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", TINY_RUN],
            cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        file, cached, cycles = done.stdout.split()
        assert Path(file).parent == package
        return cached == "True", int(cycles)

    assert run()[1] == 42
    assert run() == (True, 42)
    queues = package / "kernels" / "queues.py"
    text = queues.read_text()
    assert text.count("stamp = un.clk + 1\n") == 1
    queues.write_text(text.replace("stamp = un.clk + 1\n", "stamp = un.clk + 8\n"))
    assert run() == (False, 49)
    queues.write_text(text)
    assert run() == (True, 42)


EDITED_AFTER_IMPORT = """
import sys
from pathlib import Path
from typing import Any, NamedTuple
import numpy as np
import stepsim.kernels
from stepsim.kernels.build.entry_point import cached_entry

class Numbers(NamedTuple):
    words: Any

def first(numbers):
    return numbers.words[0]

entry = cached_entry(first, Numbers(np.int64))
source = Path(stepsim.kernels.__file__).with_name("queues.py")
if sys.argv[1:] == ["edit"]:
    source.write_text(source.read_text() + "\\n")
assert entry(Numbers(np.array([7]))) == 7
print(entry.origin.how, entry.origin.path is not None, entry.is_stored())
"""


@pytest.mark.long
@needs_compiler
def test_what_was_imported_before_an_edit_is_not_stored(tmp_path: Path) -> None:
    package = tmp_path / "stepsim"
    shutil.copytree(KERNELS.parent, package, ignore=shutil.ignore_patterns("__pycache__", "built"))
    script = tmp_path / "script.py"
    script.write_text(EDITED_AFTER_IMPORT)
    cache = tmp_path / "cache"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "STEPSIM_CACHE_DIR": str(cache)}

    def run(*arguments: str) -> tuple[str, str]:
        done = subprocess.run(
            [sys.executable, script, *arguments],
            cwd=tmp_path, env=environment, capture_output=True, text=True, check=True,
        )  # fmt: skip
        return done.stdout.strip(), done.stderr

    found, said = run("edit")
    assert found == "compiled False False"
    assert "sources of the kernels were changed since this process imported them" in said
    assert not list(cache.glob("*/*"))
    assert run() == ("compiled True True", "")
    assert run() == ("cached True True", "")
    # What is stored for the sources that were imported is that of the functions at hand.
    assert run("edit") == ("cached True True", "")
    assert run() == ("compiled True True", "")


@pytest.mark.parametrize(("setting", "value"), [("BOUNDSCHECK", 1), ("OPT", 1)])
def test_compiler_settings_are_part_of_the_key(
    monkeypatch: pytest.MonkeyPatch, setting: str, value: int
) -> None:
    before = source_digest()
    monkeypatch.setattr(numba.config, setting, value)
    assert source_digest() != before


def _with_a_function_of_three(weight: int) -> st.Program:
    mine = st.function(f"mine{weight}", "m n, m n, m 1 -> m n", lambda m, n: weight * m * n + 3 * m)
    with st.Program(compute_bw=16) as program:
        xs = [st.linear_load(st.spec(8, cols), (4, cols)) for cols in (8, 8, 1)]
        st.map(mine, *xs).consume()
    return program


@needs_compiler
def test_nothing_is_compiled_for_a_function_of_a_user() -> None:
    st.simulate(_with_a_function_of_three(5))
    with event.install_recorder("numba:compile") as recorded:
        assert st.simulate(_with_a_function_of_three(7)).flops == 2 * (7 * 32 + 12)
    assert not recorded.buffer
    with event.install_recorder("numba:compile") as recorded:
        numba.njit(lambda x: x + 1)(1)
    assert recorded.buffer
