"""Workloads of the user's files: what is found, what runs, and what is refused."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any

import pytest

from stepsim.deferred import install_extra
from stepsim.errors import StepSimError, UserCodeError, WorkloadError
from stepsim.machine import load_machine
from stepsim.simulation.cases.case import Case
from stepsim.workloads import Data, ParameterError, resolve
from stepsim.workloads.loading import Source, find_workload
from stepsim.workloads.parameters import fields_of

GEMM = """\
import stepsim as st

def gemm(*, m: int = 64, tile: int = 16) -> st.Program:
    '''Tiled product.'''
    with st.Program("gemm", compute_bw=512) as program:
        x = st.linear_load(st.spec(m, 32, name="x"), (tile, 32))
        st.linear_store(x.map(st.fn.silu), "y")
    return program
"""

CLASS = """\
from dataclasses import dataclass
from typing import Annotated
import stepsim as st
from stepsim.workloads import Built, Param, Workload
from neighbor_gemm import gemm

@dataclass(frozen=True, kw_only=True)
class Tiled(Workload):
    '''The product as a class.'''
    tile: Annotated[int, Param("rows per tile", "rows")] = 16

    def check(self, data):
        if 64 % self.tile:
            yield "tile", "expected a divisor of 64"

    def build(self, data):
        self.checked(data)
        return Built(gemm(tile=self.tile), notes=["made by a class"])
"""

FINISHED = GEMM + "\nready = gemm(m=32)\n_hidden = gemm(m=16)\ndel gemm\n"

ROUTED = """\
from typing import Annotated
import numpy as np
import stepsim as st

def routed(*, ids: Annotated[np.ndarray, st.workloads.ROUTING], width: int = 8) -> st.Program:
    with st.Program("routed", compute_bw=64) as program:
        table = st.routing(ids, experts=2)
        x = st.linear_load(st.spec(len(ids), width), (1, width)).flatten(0, 1)
        for part in st.partition(x, table.multihot()):
            st.consume(part.map(st.fn.silu))
    return program
"""


@pytest.fixture
def write(tmp_path):
    def write(text: str, name: str = "program.py") -> Path:
        path = tmp_path / name
        path.write_text(dedent(text))
        return path

    return write


def case(source: Source, data: Data | None = None, **given: Any) -> Case:
    fed = data or Data()
    resolved = resolve(source.load(), given, data=[fed])
    return Case(source, resolved, fed, load_machine("sda-1024"), "executed")


def run(source: Source, data: Data | None = None, **given: Any) -> Any:
    fed = data or Data()
    return case(source, fed, **given).result(fed)


def test_a_function(write, tmp_path):
    write(GEMM)
    source = find_workload("program.py:gemm", tmp_path)
    assert source.text == "program.py:gemm"
    assert source.is_foreign
    workload = source.load()
    assert workload.__doc__ == "Tiled product."
    assert {name: field.default for name, field in fields_of(workload).items()} == {
        "m": 64, "tile": 16,
    }  # fmt: skip
    result = run(source, m=128)
    assert result.status == "ok"
    assert result.offchip_bytes == 2 * 128 * 32 * 2


@pytest.mark.parametrize("named", ["program.py", "program.py:gemm"])
def test_the_only_workload_of_a_file_needs_no_name(write, tmp_path, named):
    write(GEMM + "\ndef helper():\n    return 1\n\nnumber = 3\n")
    assert find_workload(named, tmp_path).text == "program.py:gemm"


def test_a_function_without_annotation_is_found_if_it_is_the_only_one(write, tmp_path):
    write(GEMM.replace(" -> st.Program", ""))
    assert run(find_workload("program.py", tmp_path)).status == "ok"


def test_a_class_and_its_neighbor(write, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    write(GEMM, "neighbor_gemm.py")
    write(CLASS, "layered.py")
    source = find_workload("layered.py", tmp_path)
    assert source.text == "layered.py:Tiled"
    assert source.load().name == "Tiled"
    built = case(source, tile=8)
    assert built.built.notes == ("made by a class",)
    assert built.result(Data()).status == "ok"
    with pytest.raises(ParameterError, match=r"^tile: expected a divisor of 64$"):
        case(source, tile=7)


def test_a_finished_program(write, tmp_path):
    write(FINISHED)
    source = find_workload("program.py", tmp_path)
    assert source.text == "program.py:ready"
    assert fields_of(source.load()) == {}
    assert run(source).offchip_bytes == 2 * 32 * 32 * 2
    with pytest.raises(ParameterError, match="tile: ready has no such parameter"):
        run(source, tile=8)


def test_an_input(write, tmp_path):
    write(ROUTED)
    source = find_workload("program.py", tmp_path)
    workload = source.load()
    assert [one.name for one in workload.inputs] == ["routing"]
    assert list(fields_of(workload)) == ["width"]
    data = Data.of(routing=[[0], [1], [1]])
    assert data.missing(workload.inputs) == []
    assert Data().missing(workload.inputs) == list(workload.inputs)
    assert run(source, data, width=4).flops == 3 * 8 * 4
    other = Data.of(routing=[[0], [0], [1]])
    shape = workload(width=4)
    assert shape.program_key(data) != shape.program_key(other)


@pytest.mark.parametrize(
    ("text", "named", "message"),
    [
        ("number = 3\n", "program.py", "holds no workload; define a function that returns a Pro"),
        ("", "program.py", "holds no workload"),
        ("import stepsim as st\nfrom stepsim.workloads import Moe\n", "program.py", "holds no wor"),
        (
            GEMM + GEMM.replace("gemm(", "other("), "program.py",
            "holds 2 workloads, gemm, other; name the function or class behind a colon, as in "
            "program.py:gemm",
        ),
        (GEMM, "program.py:gem", "has no 'gem'; did you mean 'gemm'? It offers: gemm"),
        ("", "program.py:gemm", "has no 'gemm'. It offers: nothing"),
        (
            "gemm = 3\n", "program.py:gemm",
            "program.py:gemm: expected a function that returns a Program, a Workload, or a "
            "Program, found int",
        ),
        (
            "def gemm(*args): ...\n", "program.py",
            "program.py:gemm: expected arguments with names, found *args; write them out",
        ),
        (
            "def gemm(**options): ...\n", "program.py",
            "program.py:gemm: expected arguments with names, found **options; write them out",
        ),
        (
            "def gemm(m, /): ...\n", "program.py",
            "program.py:gemm: expected arguments with names, found m; write them out",
        ),
        (
            "def gemm(m): ...\n", "program.py",
            "program.py:gemm: argument m has no type; annotate it, as in m: int",
        ),
        (
            "def gemm(m=None): ...\n", "program.py",
            "program.py:gemm: argument m has no type; annotate it, as in m: int",
        ),
        *(
            (
                f"def gemm({name}: int = 4): ...\n", "program.py",
                f"program.py:gemm: parameter {name} has the name of an attribute of every workload",
            )
            for name in ("columns", "values", "name", "build")
        ),
        (
            "def gemm(m: list[int]): ...\n", "program.py",
            "program.py:gemm: workload gemm, parameter m: expected an annotation of int, float,",
        ),
        (
            "from __future__ import annotations\ndef gemm(m: Number): ...\n", "program.py",
            "program.py:gemm: an annotation cannot be read: name 'Number' is not defined",
        ),
        (
            "from stepsim.workloads import Workload\nclass Gemm(Workload):\n    m: int = 1\n",
            "program.py", "program.py:Gemm: workload Gemm: expected a dataclass; put @dataclass",
        ),
        (
            "from __future__ import annotations\nfrom dataclasses import dataclass\n"
            "from stepsim.workloads import Workload\n@dataclass(frozen=True)\n"
            "class Gemm(Workload):\n    m: Number = 1\n",
            "program.py",
            "program.py:Gemm: workload Gemm: an annotation cannot be read: name 'Number' is not",
        ),
    ],
)  # fmt: skip
def test_files_that_offer_no_workload(write, tmp_path, text, named, message):
    write(text)
    with pytest.raises(WorkloadError, match=re.escape(message)):
        find_workload(named, tmp_path)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("moee", "unknown workload 'moee'; did you mean 'moe'? Known: moe, attention, swiglu, dec"),
        ("gemm", "or name a file, as in gemm.py:gemm"),
        ("missing.py", "missing.py: cannot be read: No such file or directory; name a Python file"),
        ("folder.py", "folder.py: cannot be read: Is a directory; name a Python file"),
    ],
)
def test_workloads_that_are_not_there(tmp_path, name, message):
    (tmp_path / "folder.py").mkdir()
    with pytest.raises(WorkloadError, match=re.escape(message)):
        find_workload(name, tmp_path)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (
            "def broken():\n    return 1 / 0\n\nbroken()\n",
            ["line 4, in <module>", "line 2, in broken", "ZeroDivisionError: division by zero"],
        ),
        ("def gemm(:\n", ["line 1", "SyntaxError: invalid syntax"]),
        ("import no_such_neighbor\n", ["ModuleNotFoundError: No module named 'no_such_neighbor'"]),
        ("raise SystemExit(3)\n", ["SystemExit: 3"]),
    ],
)
def test_files_that_raise(write, tmp_path, text, lines):
    path = write(text)
    for _ in range(2):  # a file that failed is read again
        with pytest.raises(UserCodeError) as caught:
            find_workload("program.py", tmp_path)
        error_text = str(caught.value)
        assert error_text.startswith(f"{path}: raised an exception\n")
        assert all(line in error_text for line in lines)
        assert "stepsim/workloads/loading.py" not in error_text


@pytest.mark.parametrize(("package", "extra"), [("torch", "torch"), ("matplotlib", "plot")])
def test_a_file_that_needs_an_extra(write, tmp_path, monkeypatch, package, extra):
    monkeypatch.setitem(sys.modules, package, None)
    path = write(f"import {package}\n")
    with pytest.raises(UserCodeError) as caught:
        find_workload("program.py", tmp_path)
    assert str(caught.value) == (
        f"{path}: it imports {package}, which is not installed: {install_extra(extra)}"
    )


RAISES = """\
import stepsim as st

def helper(m):
    raise KeyError(m)

def gemm(*, m: int = 1) -> st.Program:
    return helper(m)
"""


def test_a_function_that_raises(write, tmp_path):
    path = write(RAISES)
    with pytest.raises(UserCodeError) as caught:
        case(find_workload("program.py", tmp_path), m=7)
    error_text = str(caught.value).splitlines()
    assert error_text[0] == "program.py:gemm: raised an exception"
    assert error_text[1] == "Traceback (most recent call last):"
    assert error_text[2] == f'  File "{path}", line 7, in gemm'
    assert error_text[-1] == "KeyError: 7"


def test_errors_of_the_graph_pass_as_they_are(write, tmp_path):
    write(GEMM)
    with pytest.raises(StepSimError) as caught:
        case(find_workload("program.py", tmp_path), tile=7)
    assert not isinstance(caught.value, UserCodeError)


@pytest.mark.parametrize(("returned", "found"), [("None", "NoneType"), ("3", "int")])
def test_a_function_that_returns_no_program(write, tmp_path, returned, found):
    write(f"def gemm(m: int = 1):\n    return {returned}\n")
    message = f"program.py:gemm: expected a function that returns a Program, .* returns {found}"
    with pytest.raises(WorkloadError, match=message):
        case(find_workload("program.py", tmp_path))


def test_a_file_that_changes_after_it_was_found(write, tmp_path):
    write(GEMM)
    source = find_workload("program.py", tmp_path)
    path = write(GEMM.replace("= 64", "= 32"))
    with pytest.raises(WorkloadError, match=r"program.py: has changed since it was read first"):
        source.load()
    assert fields_of(find_workload("program.py", tmp_path).load())["m"].default == 32
    path.unlink()
    with pytest.raises(WorkloadError, match=r"program.py: cannot be read: No such file"):
        source.load()


def test_arguments_may_have_names_that_loading_uses(write, tmp_path):
    write(
        GEMM.replace(
            "m: int = 64", "where: int = 64, traces: int = 1, function: str = 'f'"
        ).replace("st.spec(m,", "st.spec(where,")
    )
    assert run(find_workload("program.py", tmp_path), where=32).offchip_bytes == 2 * 32 * 32 * 2


def test_files_of_one_name_do_not_mix(write, tmp_path):
    first = find_workload(str(write(GEMM)), tmp_path)
    (tmp_path / "other").mkdir()
    second = find_workload(str(write(GEMM.replace("= 64", "= 32"), "other/program.py")), tmp_path)
    assert [fields_of(s.load())["m"].default for s in (first, second)] == [64, 32]
    assert first.digest != second.digest


def test_a_file_that_was_edited_within_a_second_runs_as_it_is_now(write, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    write("TILE = 16\n", "sizes.py")
    text = "from sizes import TILE\n" + GEMM.replace("tile: int = 16", "tile: int = TILE")
    path, when = write(text), 1_700_000_000
    for own, near in ((64, 16), (32, 16), (32, 32)):
        write(text.replace("= 64", f"= {own}"))
        write(f"TILE = {near}\n", "sizes.py")
        for file in (path, tmp_path / "sizes.py"):
            os.utime(file, (when, when))
        known = fields_of(find_workload("program.py", tmp_path).load())
        assert (known["m"].default, known["tile"].default) == (own, near)
    assert not (tmp_path / "__pycache__").exists()


def test_each_file_has_its_own_neighbors(write, tmp_path):
    text = "from sizes import TILE\n" + GEMM.replace("tile: int = 16", "tile: int = TILE")
    found = []
    for folder, tile in (("a", 16), ("b", 32)):
        (tmp_path / folder).mkdir()
        write(text, f"{folder}/program.py")
        write(f"TILE = {tile}\n", f"{folder}/sizes.py")
        found.append(find_workload("program.py", tmp_path / folder))
    assert [fields_of(one.load())["tile"].default for one in found] == [16, 32]
    assert found[0].digest != found[1].digest
    assert "sizes" not in sys.modules
    assert not any(str(tmp_path) in place for place in sys.path)


def test_an_edited_neighbor_changes_the_digest(write, tmp_path):
    (tmp_path / "parts").mkdir()
    write("", "parts/__init__.py")
    write("TILE = 16\n", "parts/sizes.py")
    write("from parts.sizes import TILE\n" + GEMM.replace("tile: int = 16", "tile: int = TILE"))
    before = find_workload("program.py", tmp_path)
    assert find_workload("program.py", tmp_path) == before
    write("TILE = 32\n", "parts/sizes.py")
    with pytest.raises(WorkloadError, match="has changed since it was read first, or a module"):
        before.load()
    after = find_workload("program.py", tmp_path)
    assert after.digest != before.digest
    assert fields_of(after.load())["tile"].default == 32


def test_a_module_of_the_process_does_not_stand_in_for_a_neighbor(write, tmp_path, monkeypatch):
    other = ModuleType("sizes")
    monkeypatch.setitem(sys.modules, "sizes", other)
    write("TILE = 8\n", "sizes.py")
    write("from sizes import TILE\n" + GEMM.replace("tile: int = 16", "tile: int = TILE"))
    assert fields_of(find_workload("program.py", tmp_path).load())["tile"].default == 8
    assert sys.modules["sizes"] is other


def test_neighbors_are_no_packages_that_are_installed(write, tmp_path):
    write("raise OSError\n", "numpy.py")
    write("raise OSError\n", "string.py")
    write("import numpy, string\n" + GEMM)
    assert run(find_workload("program.py", tmp_path)).status == "ok"


def test_a_neighbor_can_be_imported_when_the_program_is_built(write, tmp_path):
    write("TILE = 8\n", "sizes.py")
    write(GEMM.replace("    with", "    import sizes\n    tile = sizes.TILE\n    with"))
    source = find_workload("program.py", tmp_path)
    assert source.digest == hashlib.sha256((tmp_path / "program.py").read_bytes()).hexdigest()
    assert run(source).status == "ok"
    assert "sizes" not in sys.modules


def test_what_a_file_prints_does_not_stand_among_results(write, tmp_path, capsys):
    write("print('read')\n" + GEMM.replace("    with", "    print('built')\n    with"))
    assert run(find_workload("program.py", tmp_path)).status == "ok"
    assert capsys.readouterr() == ("", "read\nbuilt\n")


def test_a_plan_in_a_folder_called_as_a_workload_is_ambiguous(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "moe"
    folder.mkdir()
    (folder / "plan.yaml").write_text("format: stepsim plan 1\n")
    with pytest.raises(
        WorkloadError, match=r"'moe' is both a workload and the folder of a plan; name .*\./moe "
    ):
        find_workload("moe", tmp_path)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(WorkloadError, match=r"the folder of a plan; .* or rename it"):
        find_workload("moe")
    assert find_workload("./moe").path == str(folder / "plan.yaml")
    monkeypatch.chdir(folder)
    assert find_workload("moe").path is None
