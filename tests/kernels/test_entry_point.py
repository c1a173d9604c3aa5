"""Calls of compiled code from Python: what is handed over, and what is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from stepsim.errors import LoweringError
from stepsim.kernels.build import entry_point, loading
from stepsim.kernels.build.entries import Code
from stepsim.kernels.build.entry_point import EntryPoint, cached_entry
from stepsim.kernels.build.jit import apart, spliced
from stepsim.kernels.build.loading import in_best_form
from stepsim.kernels.build.settings import is_jit_disabled

needs_compiler = pytest.mark.skipif(
    is_jit_disabled(), reason="NUMBA_DISABLE_JIT is set: nothing is compiled"
)

RECORD = np.dtype([("factor", np.int64), ("uses", np.int32)], align=True)


class Numbers(NamedTuple):
    words: Any
    records: Any


class Result(NamedTuple):
    words: Any


@spliced
def factor(state: Numbers) -> Any:
    return state.records[0].factor


@apart
def scale(state: Numbers, i: int, result: Result) -> None:
    result.words[i] = state.words[i] * factor(state)
    state.records[0].uses += 1


def scaled(state: Numbers, result: Result) -> int:
    for i in range(len(state.words)):
        scale(state, i, result)
    return len(result.words)


LAYOUTS = (Numbers(np.int64, RECORD), Result(np.int64))


@pytest.fixture(scope="module")
def entry(tmp_path_factory: pytest.TempPathFactory) -> EntryPoint:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STEPSIM_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        made = cached_entry(scaled, *LAYOUTS)
        made.make_ready()
    return made


def arguments(words: list[int]) -> tuple[Numbers, Result]:
    records = np.array([(3, 0)], RECORD).view(np.recarray)
    return Numbers(np.array(words, np.int64), records), Result(np.zeros(len(words), np.int64))


def test_tuples_of_arrays_are_handed_over(entry: EntryPoint) -> None:
    state, result = arguments([1, 2, 5])
    assert entry(state, result) == 3
    assert result.words.tolist() == [3, 6, 15]
    assert state.records[0].uses == 3
    assert entry(*arguments([])) == 0
    assert scaled(*arguments([4])) == 1  # as plain Python


def test_a_call_with_the_same_arrays_looks_at_them_once(entry: EntryPoint) -> None:
    state, result = arguments([1, 2, 5])
    again = entry.bound(state, result)
    state.words[1] = 7
    assert [again(), again()] == [3, 3]
    assert result.words.tolist() == [3, 21, 15]
    assert state.records[0].uses == 6
    with pytest.raises(LoweringError, match="expected a contiguous, aligned and writeable array"):
        entry.bound(state, Result(result.words[::2]))


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda words: words.astype(np.float64), "one of float64"),
        (lambda words: words.astype(">i8"), "one of >i8"),
        (lambda words: words.astype(np.int32), "one of int32"),
        (lambda words: np.repeat(words, 2)[::2], "not contiguous"),
        (lambda words: words.reshape(1, -1), "2 dims"),
        (lambda words: words.reshape(-1)[0:1].reshape(()), "0 dims"),
        (lambda words: words.tolist(), "a list"),
        (lambda words: np.frombuffer(words.tobytes(), np.int64), "not writeable"),
        (
            lambda words: np.frombuffer(bytearray(8 * len(words) + 1), np.int64, offset=1),
            "not aligned",
        ),
    ],
)  # fmt: skip
@needs_compiler
def test_other_arrays_are_refused_by_name(
    entry: EntryPoint, change: Callable[[Any], Any], found: str
) -> None:
    state, result = arguments([1, 2])
    with pytest.raises(LoweringError, match=rf"array 'words' .* of int64, found .*{found}"):
        entry(state._replace(words=change(state.words)), result)
    other = np.zeros(1, [("factor", np.int64), ("uses", np.int64)])
    with pytest.raises(LoweringError, match=r"array 'records' .* of 16-byte records, found one of"):
        entry(state._replace(records=other), result)
    with pytest.raises(ValueError, match="shorter"):
        entry(state)


def test_threads_have_calls_of_their_own(entry: EntryPoint) -> None:
    def one(number: int) -> bool:
        state, result = arguments([number] * 2000)
        return entry(state, result) == 2000 and set(result.words.tolist()) == {3 * number}

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(one, range(80)))


def refuse_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    real = entry_point.loaded

    def loaded(code: Code) -> Any:
        if code.form == "shared":
            raise entry_point.UnusableError("not permitted")
        return real(code)

    monkeypatch.setattr(entry_point, "loaded", loaded)


@needs_compiler
def test_without_a_linker_the_object_is_loaded_by_llvmlite_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEPSIM_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(loading, "_LINKERS", ())
    for how in ("compiled", "cached"):
        made = cached_entry(scaled, *LAYOUTS)
        state, result = arguments([1, 2, 5])
        assert made(state, result) == 3
        assert result.words.tolist() == [3, 6, 15]
        assert made.origin is not None
        assert made.origin.how == how
        code = made.places[-1].files.load(made.places[-1].key)
        assert code is not None
        assert code.form == "unlinked"
    assert in_best_form(code.binary) == code


@needs_compiler
@pytest.mark.skipif(sys.platform != "linux", reason="only on Linux code is linked")
@pytest.mark.parametrize(("is_allowed", "form"), [(True, "shared"), (False, "object")])
def test_code_is_linked_once_the_linker_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_allowed: bool, form: str
) -> None:
    monkeypatch.setenv("STEPSIM_CACHE_DIR", str(tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(loading, "_linked", lambda binary: None)
        made = cached_entry(scaled, *LAYOUTS)
        made.make_ready()
    stored = made.places[-1]
    code = stored.files.load(stored.key)
    assert code is not None
    assert code.form == "unlinked"
    if not is_allowed:
        refuse_shared(monkeypatch)
    for _ in range(2):
        again = cached_entry(scaled, *LAYOUTS)
        assert again(*arguments([1, 2])) == 2
        assert again.origin is not None
        assert again.origin.how == "cached"
        code = stored.files.load(stored.key)
        assert code is not None
        assert code.form == form
        monkeypatch.setattr(loading, "_LINKERS", ())  # it is linked once


@needs_compiler
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has files in memory")
def test_without_files_in_memory_one_in_a_private_folder_is_loaded(
    entry: EntryPoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = entry.places[-1].files.load(entry.places[-1].key)
    assert code is not None
    assert code.form == "shared"
    monkeypatch.setattr(loading, "_in_memory", lambda binary: None)
    monkeypatch.setattr(entry, "_code", loading.loaded(code))
    state, result = arguments([7])
    assert entry(state, result) == 1
    assert result.words.tolist() == [21]


@needs_compiler
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has shared objects")
@pytest.mark.parametrize("kept", [0, 4, 63, 64, 100, 0.2, 0.5])
def test_a_shared_object_that_is_cut_off_is_refused(entry: EntryPoint, kept: float) -> None:
    # The file may be as it was stored: a linker wrote that much before the disk was full.
    code = entry.places[-1].files.load(entry.places[-1].key)
    assert code is not None
    rest = code.binary[: int(kept if isinstance(kept, int) else kept * len(code.binary))]
    with pytest.raises(entry_point.UnusableError, match="not a complete shared object"):
        loading.loaded(Code("shared", rest))


@needs_compiler
def test_where_libraries_are_forbidden_the_object_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEPSIM_CACHE_DIR", str(tmp_path))
    refuse_shared(monkeypatch)
    made = cached_entry(scaled, *LAYOUTS)
    assert made(*arguments([1])) == 1
    code = made.places[-1].files.load(made.places[-1].key)
    assert code is not None
    assert code.form == "object"


CHECKED = """
import sys
from typing import Any, NamedTuple
import numpy as np
from stepsim.errors import LoweringError
from stepsim.kernels.build.by_reference import by_reference
from stepsim.kernels.build.entry_point import cached_entry
from stepsim.kernels.build.jit import apart, inlined

class Numbers(NamedTuple):
    words: Any
    records: Any

@inlined
def add(state, i):
    state.words[i] += state.records[i].a

@apart
def change(state, i):
    add(state, i)
    return state.words[i]

def entry(state):
    return change(by_reference(state), state.words[0])

record = np.dtype([("a", np.int64), ("b", np.int8)], align=True)
run = cached_entry(entry, Numbers(np.int64, np.dtype((np.record, record))))
for lengths, at in [((3, 3), 2), ((3, 3), 3), ((3, 3), -1), ((3, 2), 2), ((2, 3), 2)]:
    words, records = np.zeros(lengths[0], np.int64), np.zeros(lengths[1], record)
    words[0], records["a"] = at, 5
    try:
        print(run(Numbers(words, records.view(np.recarray))))
    except LoweringError as error:
        print(str(error).partition(";")[0])
print(run.is_stored())
"""


@pytest.mark.slow
@needs_compiler
def test_entries_beyond_an_array_are_noticed_when_asked(tmp_path: Path) -> None:
    script = tmp_path / "checked.py"
    script.write_text(CHECKED)
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "STEPSIM_CACHE_DIR": str(tmp_path)}
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, script], env={**environment, "PYTHONPATH": root},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    error = "the compiled engine raised error 1, as for an index out of range"
    assert done.stdout.splitlines() == ["5", *[error] * 4, "True"]


ALONE = """
import sys
import stepsim.kernels.driver, stepsim.kernels.catalog, stepsim.kernels.declaration
import stepsim.kernels.layout, stepsim.kernels.memory.dispatch, stepsim.kernels.units.maps
import stepsim.lowering
from stepsim.kernels.engine import run
if run.is_stored():
    run.make_ready()
print(run.is_stored(), sorted({"numba", "llvmlite"} & set(sys.modules)))
"""


@needs_compiler
def test_the_engine_is_loaded_without_the_compiler() -> None:
    from stepsim.simulation import ensure_compiled

    ensure_compiled()
    done = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, check=True)
    assert done.stdout == "True []\n"
