"""Mistakes in workloads of users and in calls from Python: each is named where it was made."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import stepsim as st
from stepsim.errors import StepSimError
from stepsim.simulation.cases.case import make_case
from stepsim.workloads import Data, Moe

CLASS = """\
from dataclasses import dataclass
from typing import Annotated, ClassVar
import numpy as np
import stepsim as st

def program(rows=64):
    with st.Program("rows", compute_bw=512) as made:
        st.linear_store(st.linear_load(st.spec(rows, 32), (16, 32)).map(st.fn.silu), "y")
    return made

@dataclass(frozen=True, kw_only=True)
class Rows(st.workloads.Workload):
    m: int = 1
"""
BUILD = CLASS + "    def build(self, data):\n        return st.workloads.Built(program())\n"
ROUTED = "Annotated[np.ndarray, st.workloads.ROUTING]"
FUNCTION = CLASS.partition("@dataclass")[0] + "def f({}) -> st.Program:\n    return program()\n"
PARAMETERS = (
    CLASS
    + "    def build(self, data):\n        return st.workloads.Built(program(), parameters={})\n"
)

MISTAKES = {
    "result columns": (
        PARAMETERS.replace("{}", "{'m': 2, 'regions_built': 1, 'cycles': 1, 'status': 'ok'}"),
        "own.py:Rows: build: Built.parameters has cycles, status, expected parameters of the "
        "workload or left_out, regions_built; leave them out",
    ),
    "builds nothing": (
        CLASS + "    def build(self, data):\n        pass\n",
        "own.py:Rows: build: expected a Built, found NoneType; return st.workloads.Built(program)",
    ),
    "builds a program": (
        CLASS + "    def build(self, data):\n        return program()\n",
        "own.py:Rows: build: expected a Built, found Program; return st.workloads.Built(program)",
    ),
    "built of no program": (
        CLASS + "    def build(self, data):\n        return st.workloads.Built(3)\n",
        "own.py:Rows: build: expected a Built of a Program, found one of int",
    ),
    "no build": (CLASS, "own.py:Rows: has no method build; define one that returns a Built"),
    "check of a text": (
        BUILD + "    def check(self, data):\n        yield 'm'\n",
        "Rows: check: expected pairs of a parameter and a text, found 'm'; yield them",
    ),
    "check of no texts": (
        BUILD + "    def check(self, data):\n        return [('m', 3)]\n",
        "Rows: check: expected pairs of a parameter and a text, found ('m', 3); yield them",
    ),
    "check of nothing": (
        BUILD + "    def check(self, data):\n        return None\n",
        "Rows: check: expected pairs of a parameter and a text, found None; yield them",
    ),
    "presets of nothing": (
        BUILD + "    @classmethod\n    def presets(cls, *_):\n        pass\n",
        "workload Rows: presets: expected a mapping of parameters to values, found None; return {}",
    ),
    "presets of others": (
        BUILD + "    @classmethod\n    def presets(cls, *_):\n        return {'rows': 1}\n",
        "workload Rows: presets: expected names of parameters, found 'rows'. Its parameters: m",
    ),
    "an input of its own": (
        BUILD.replace("    m: int", "    inputs: ClassVar = (st.workloads.inputs.Input('foo', "
                      "'x'),)\n    m: int"),
        "own.py:Rows: inputs: expected ROUTING, KV_LENGTHS and NEW_TOKENS only, found foo",
    ),
    "one input": (
        BUILD.replace("    m: int", "    inputs: ClassVar = st.workloads.ROUTING\n    m: int"),
        "own.py:Rows: inputs: expected a tuple of different inputs, found Input(",
    ),
    "an input twice": (
        FUNCTION.format(f"a: {ROUTED}, b: {ROUTED}"),
        "own.py:f: inputs: expected a tuple of different inputs, found routing, routing; each",
    ),
    "no trace": (
        FUNCTION.format(f"a: {ROUTED}"),
        "routing: missing; own.py:f is built from its trace",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "message"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_in_a_file(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "own.py").write_text(text)
    name = "own.py:Rows" if "class Rows" in text else "own.py:f"
    with pytest.raises(StepSimError, match=re.escape(message)) as caught:
        make_case(str(tmp_path / name))
    assert type(caught.value).__name__ in ("WorkloadError", "ParameterError")


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((5,), {}, "workload: expected a name, or a file as in gemm.py:gemm, found 5"),
        (("a\0b",), {}, "unknown workload 'a\0b'"),
        (("a\0b.py",), {}, "a\0b.py: cannot be read: "),
        (("swiglu", 5), {}, "data: expected Data, found int; see Data.of"),
        (("swiglu",), {"machine": 5}, "machine: expected the name of a machine, a file, or a Mac"),
        (("swiglu",), {"machine": ""}, "machine: expected the name of a machine, a file, or"),
        (("swiglu",), {"machine": "a\0b"}, "machine: expected the name of a machine, a file, or"),
    ],
)
def test_mistakes_in_a_call(
    arguments: tuple[Any, ...], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(StepSimError, match=re.escape(message)):
        make_case(*arguments, **options)


def test_a_path_is_a_file_and_a_name_is_a_machine(tmp_path: Path) -> None:
    path = tmp_path / "own.py"
    path.write_text(BUILD)
    assert make_case(path, machine="sda-hdl").describe(Data())["machine"] == "sda-hdl"
    given = {"model": "qwen3-30b-a3b", "tile": 4}
    assert Moe.of(machine="sda-1024", **given) == Moe.of(machine=st.load_machine(), **given)
    with pytest.raises(StepSimError, match="machine: expected the name"):
        Moe.of(machine=5, **given)
    with pytest.raises(StepSimError, match="data: expected Data, found int"):
        Moe.of(data=5, **given)


def test_what_presets_raise_in_python_is_the_error_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "own.py"
    path.write_text(BUILD + "    @classmethod\n    def presets(cls, *_):\n        1 / 0\n")
    with pytest.raises(st.errors.UserCodeError, match=r"^own.py:Rows: raised an exception"):
        make_case(path)
