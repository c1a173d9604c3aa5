"""The file of baselines: what is written is read, and what is damaged is refused by its place."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as draw

import stepsim as st
from stepsim.errors import BaselineError
from stepsim.pytest_plugin.baselines import read_baselines, write_baselines
from stepsim.pytest_plugin.entries import Entry, measured
from tests.property_profile import profile
from tests.pytest_plugin.programs import linear

_COUNT = draw.integers(0, 2**70)
_TEXT = draw.text(draw.characters(codec="utf-8"), max_size=12)
_TEXTS = draw.dictionaries(_TEXT, _TEXT, max_size=2)
_STALLS = draw.dictionaries(
    _TEXT,
    draw.dictionaries(draw.sampled_from(["work", "input from x"]), _COUNT).map(
        lambda causes: {"lanes": 3, **causes}
    ),
    max_size=2,
)


def _with(texts: Any, name: str) -> Any:
    return draw.builds(lambda own, value: {**own, name: value}, texts, _TEXT)


_LISTINGS = draw.fixed_dictionaries(
    {
        "version": draw.just(1),
        "program": _TEXTS,
        "operators": draw.dictionaries(_TEXT, _with(_TEXTS, "made by"), max_size=2),
        "streams": draw.dictionaries(_TEXT, _with(_TEXTS, "depth"), max_size=2),
    }
)
_ENTRIES = draw.builds(
    Entry,
    cycles=_COUNT,
    offchip_bytes=_COUNT,
    onchip_bytes=draw.none() | _COUNT,
    flops=_COUNT,
    program=_TEXT,
    program_hash=_TEXT,
    bindings=_TEXTS,
    machine=draw.builds(lambda name, n: {"name": name, "hbm": {"channels": n}}, _TEXT, _COUNT),
    fifo_depth=_COUNT,
    fifo_depths=draw.dictionaries(
        _TEXT, draw.one_of(draw.none(), draw.integers(min_value=1)), max_size=3
    ),
    plugins=_TEXTS,
    model_version=_COUNT,
    stalls=_STALLS,
    listing=draw.none() | _LISTINGS,
)
_CHECKS = draw.dictionaries(_TEXT, _ENTRIES, min_size=1, max_size=2)


@pytest.mark.slow
@profile(30)
@given(baselines=draw.dictionaries(_TEXT, _CHECKS, max_size=3))
def test_what_is_written_is_read(
    baselines: dict[str, dict[str, Entry]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("baselines") / "test_a.cycles.json"
    assert write_baselines(path, baselines) == bool(baselines)
    assert read_baselines(path) == baselines
    assert not write_baselines(path, read_baselines(path))
    assert {item.name for item in path.parent.iterdir()} <= {path.name}


@pytest.fixture
def document(tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    program = linear()
    path = tmp_path / "test_a.cycles.json"
    write_baselines(path, {"test_a": {"linear": measured(program, st.simulate(program), None)}})
    return path, json.loads(path.read_text())


def test_lines_are_short_and_one_operator_has_one(document: tuple[Path, dict[str, Any]]) -> None:
    path, data = document
    lines = path.read_text().splitlines()
    assert max(map(len, lines)) <= 110
    (stalls,) = (check["stalls"] for check in data["tests"]["test_a"].values())
    for operator in stalls:
        assert sum(json.dumps(operator) in line for line in lines) == 1
    assert any(re.fullmatch(r' +"cycles": 896,', line) for line in lines)


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ("format", 2, "format: expected the number 1, found 2"),
        ("machines", [], "machines: expected a mapping, found []"),
        ("machines.*", 3, "expected a mapping, found 3"),
        ("machines.*", {"clock_ghz": 1}, "expected a machine with its name, found"),
        ("tests.test_a.linear.listing.operators", 1, "expected the outline of a program, found"),
        ("tests.test_a.linear.listing.program", 1, "expected the outline of a program, found"),
        ("tests.test_a.linear.listing.streams", 1, "expected the outline of a program, found"),
        ("tests.test_a.linear.listing.streams", {"a -> b": {"elements": "1"}}, "the outline of"),
        ("tests.test_a.linear.listing.operators", {"a": {"fn": "neg"}}, "the outline of a program"),
        ("tests", 3, "tests: expected a mapping, found 3"),
        ("tests.test_a", 3, "tests.test_a: expected a mapping, found 3"),
        ("tests.test_a.linear", 3, "tests.test_a.linear: expected a mapping, found 3"),
        ("tests.test_a.linear.cycles", "9", "linear.cycles: expected a whole number, found '9'"),
        ("tests.test_a.linear.cycles", True, "linear.cycles: expected a whole number, found True"),
        ("tests.test_a.linear.cycles", -1, "linear.cycles: expected a whole number, found -1"),
        ("tests.test_a.linear.flops", 1.0, "linear.flops: expected a whole number, found 1.0"),
        ("tests.test_a.linear.onchip_bytes", "", "expected a whole number or null, found ''"),
        ("tests.test_a.linear.machine", "x", "expected a name among 'machines', found 'x'"),
        ("tests.test_a.linear.bindings", {"a": 1}, "expected a mapping of texts, found {'a': 1}"),
        ("tests.test_a.linear.fifo_depths", {"a": 0}, "numbers from 1, or null, found {'a': 0}"),
        ("tests.test_a.linear.stalls", {"a": {}}, "expected lanes and cycles by operator, found"),
        ("tests.test_a.linear.extra", 1, "tests.test_a.linear: expected the keys bindings, cycles"),
        ("extra", 1, "the document: expected the keys format, machines, tests, found"),
    ],
)
def test_damage_is_told_by_its_place(
    document: tuple[Path, dict[str, Any]], place: str, value: object, message: str
) -> None:
    path, data = document
    *above, last = place.split(".")
    node: Any = data
    for name in above:
        node = node[name]
    node[next(iter(node)) if last == "*" else last] = value
    path.write_text(json.dumps(data, indent=1))
    with pytest.raises(BaselineError) as caught:
        read_baselines(path)
    text = str(caught.value)
    assert message in text
    assert re.match(rf"baselines {re.escape(str(path))}(:\d+)?: ", text)
    assert text.endswith("or delete it and run pytest with --update-cycles")
