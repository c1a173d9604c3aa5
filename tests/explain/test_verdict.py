"""Sentences of verdicts: they agree with the table, and with what was measured to help."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from typing import Any, cast

import pytest

import stepsim as st
from stepsim.explain import critical_path
from stepsim.explain.changes.suggestions import Suggestion
from stepsim.explain.verdict import verdict_of
from tests.explain.known_answers import parallel_loads, skewed_experts
from tests.explain.test_what_if import narrow_port


def test_issue_and_latency_of_a_port_are_distinguished() -> None:
    found = st.why(narrow_port())
    assert found.speed_of_light is not None
    port = found.speed_of_light.resources[0]
    issuing, together = re.findall(r"([0-9.]+) %", found.verdict.sentence)
    assert issuing == f"{100 * port.share:.1f}"
    assert together == f"{100 * port.bound / found.cycles:.1f}"
    assert float(issuing) < float(together)


def test_a_change_that_ends_waste_is_named_beside_the_bound() -> None:
    balance = st.why(skewed_experts()).suggestions[0]
    found = st.why(parallel_loads())
    assert balance.kind == "balance"
    assert found.speed_of_light is not None

    def sentence(*suggestions: Suggestion) -> str:
        assert found.speed_of_light is not None
        return verdict_of(found.speed_of_light, {}, suggestions, []).sentence

    (channels,) = [one for one in found.suggestions if one.kind == "hbm_bandwidth"]
    few = replace(channels, row={**channels.row, "gain": 0.1})
    assert sentence(few) == found.verdict.sentence
    message = sentence(balance, few)
    assert message == (
        f"{found.verdict.sentence}; a balanced routing saves {100 * balance.gain:.1f} %, more of "
        "the resource 10.0 %"
    )
    worse = replace(balance, row={**balance.row, "gain": 0.09})
    assert sentence(worse, few) == found.verdict.sentence


def test_a_program_without_work_has_nothing_to_do() -> None:
    with st.Program("empty") as program:
        pass
    found = st.why(program)
    assert found.verdict.kind == "nothing"
    assert "there is nothing to do" in str(found)


def test_paths_refuse_what_they_cannot_tell() -> None:
    path = critical_path(parallel_loads())
    for lines in (1.5, -3, 0, "x"):
        with pytest.raises(st.errors.ArgError, match="max_lines must be an int from 1"):
            path.folded(cast(Any, lines))
    for by in ("nope", 3, [], ["operator", "operator"], ["cause", "begin"]):
        with pytest.raises(st.errors.ArgError, match="by must be a list"):
            path.totals(cast(Any, by))
    assert path.totals("cause").num_rows > 1
    with pytest.raises(st.errors.ArgError, match="has its machine, depths and places already"):
        critical_path(st.prepare(parallel_loads()), "sda-2026")


def test_compute_without_limit_is_valid_json() -> None:
    program = skewed_experts()
    names = [unit.name for unit in st.prepare(program).wiring.units]
    expert = next(name for name in names if name.startswith("expert.0"))
    table = st.simulate_many(program, variants=[st.Variant("free", compute={expert: math.inf})])
    text = table.schema.metadata[b"provenance"].decode()
    about = json.loads(text, parse_constant=lambda word: pytest.fail(word))
    assert about["variants"][0]["compute"] == {expert: "inf"}
