"""Damaged plans of compiled designs."""

from __future__ import annotations

import functools
import random

import yaml

from stepsim.design import Plan
from tests.design.search.small import small
from tests.fuzz.mutation import damaged_bytes, damaged_data, damaged_text
from tests.fuzz.reading import new_path, outcome

__all__ = ["one"]


@functools.cache
def _texts() -> tuple[str, ...]:
    """Plans of one group and of several."""
    return small().plan.to_yaml(), small("prefill", 600).plan.to_yaml()


@functools.cache
def _data(text: str) -> object:
    return yaml.load(text, yaml.CSafeLoader)


def _damaged(rng: random.Random, text: str) -> bytes:
    kind = rng.randrange(4)
    if kind == 0:
        return damaged_bytes(rng, text.encode(), _texts()[0].encode())
    if kind == 1:
        return damaged_text(rng, text).encode(errors="surrogatepass")
    changed = damaged_data(rng, _data(text))
    try:
        return yaml.safe_dump(changed, sort_keys=False).encode(errors="surrogatepass")
    except (yaml.YAMLError, ValueError, RecursionError):
        return damaged_bytes(rng, text.encode(), text.encode())


def _read(path: object) -> None:
    plan = Plan.load(str(path))
    again = Plan.from_yaml(plan.to_yaml())
    assert again == plan or again.to_yaml() == plan.to_yaml(), "a written plan is another"


def one(rng: random.Random) -> str:
    """Damage a plan and read it."""
    content = _damaged(rng, rng.choice(_texts()))
    with new_path("plan.yaml", content) as path:
        return outcome(lambda: _read(path), "plan", content)
