"""The recorded cases of typed streams, matching and converters: all values equal."""

from __future__ import annotations

import hashlib
import itertools
import math
from typing import Any

import pytest

from stepsim.errors import ITensorError
from stepsim.itensor import (
    ITensor,
    converter,
    cut_points,
    difference,
    live_lower_bound,
    loop_prefix,
    matches,
    min_cells,
    min_uniform_cells,
    printed,
    printed_with_constants,
)
from tests.itensor.cases import cases, needs_cases, parts_of, stream

pytestmark = needs_cases


def _differ(family: str, found: dict[str, Any], expected: dict[str, Any], case: str) -> list[str]:
    return [
        f"{family} {case} {name}: {found[name]!r}, expected {expected[name]!r}"
        for name in expected.keys() | found.keys()
        if found.get(name, "missing") != expected.get(name, "missing")
    ]


def test_streamtensor_cases_of_types() -> None:
    wrong: list[str] = []
    valid = 0
    for case in cases("itensor"):
        raw, expected = case["itensor"], case["expected"]
        broken = ITensor.violations(**parts_of(raw))
        found: dict[str, Any] = {
            "valid": not broken,
            "violations": [violation.rule for violation in broken],
        }
        if broken:
            with pytest.raises(ITensorError) as error:
                stream(raw)
            assert str(error.value).count("\n") == len(broken)
            assert raw["text"] in str(error.value) or raw["map"]["num_symbols"]
        else:
            valid += 1
            it = stream(raw)
            offsets = it.offsets()
            found |= {
                "shape": list(it.shape),
                "tokens": it.tokens,
                "first_offsets": offsets[:12].tolist(),
                "offsets_sha256": hashlib.sha256(offsets.astype("<i8").tobytes()).hexdigest(),
                "revisit_loops": list(it.revisit_loops),
                "regular": it.regular,
                "distinct_offsets": it.distinct_offsets,
                "covers_all_cells": it.covers_all_cells,
                "tiles_overlap": it.tiles_overlap,
                "token_bits": it.token_bits,
                "cells": it.cells,
            }
            assert str(it) == raw["text"]
            assert all(
                it.offset_of(token) == tuple(at)
                for token, at in itertools.islice(enumerate(offsets.tolist()), 50)
            )
        wrong += _differ("itensor", found, expected, case["id"])
    assert not wrong, "\n".join(wrong)
    assert valid >= 200


def test_streamtensor_cases_of_matching() -> None:
    wrong: list[str] = []
    for case in cases("match"):
        src, dst = stream(case["src"]), stream(case["dst"])
        found_difference = difference(src, dst)
        written = (src.element, src.trips, src.steps, src.map)
        found = {
            "need_converter": not matches(src, dst),
            "first_difference": found_difference.token if found_difference else None,
            "tokens": [src.tokens, dst.tokens],
            "types_equal": written == (dst.element, dst.trips, dst.steps, dst.map),
        }
        wrong += _differ("match", found, case["expected"], case["id"])
        assert src.shape == tuple(case["shape"]) == dst.shape
    assert not wrong, "\n".join(wrong)


def test_streamtensor_cases_of_converters() -> None:
    wrong: list[str] = []
    for case in cases("converter"):
        src, dst = stream(case["src"]), stream(case["dst"])
        cuts = cut_points(src, dst)
        least, uniform = min_cells(src, dst), min_uniform_cells(src, dst)
        chunk = loop_prefix(src, dst)
        cells = None if chunk is None else math.prod(chunk)
        plain, constants = printed(src, dst), printed_with_constants(src, dst)
        segments = list(cuts.segments)
        found = {
            "min_cells": least,
            "segments": len(segments),
            "segment_cells": segments if len(segments) <= 16 else None,
            "min_uniform_cells": uniform,
            "live_lower_bound": live_lower_bound(src, dst),
            "need_converter": not matches(src, dst),
            **{
                name: {
                    "chunk": list(of.chunk),
                    "cells": of.cells,
                    "before_loop": of.before_loop,
                }
                for name, of in (("printed", plain), ("printed_with_constants", constants))
            },
            "regular": src.regular and dst.regular,
            "prefix": None if chunk is None else {"chunk": list(chunk), "cells": cells},
            "prefix_is_minimal": None if cells is None else cells == least,
            "prefix_is_uniform_minimal": None if cells is None else cells == uniform,
            "printed_is_minimal": plain.cells == least,
            "printed_is_sound": plain.cells >= least,
        }
        wrong += _differ("converter", found, case["expected"], case["id"])

        made = converter(src, dst)
        assert (made.kind == "fifo") == (not case["expected"]["need_converter"])
        if made.kind != "fifo":
            assert made.cells >= least
            assert made.cells == (math.prod(case["shape"]) if cells is None else uniform)
    assert not wrong, "\n".join(wrong)
