"""How often units fire: once for every token that they take, or send, or read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import pytest
from hypothesis import given

from stepsim.kernels.driver import execute
from stepsim.kernels.layout import Status
from stepsim.lowering import Network, build_image
from tests.oracle.example import Example
from tests.oracle.extension_examples import EXTENSION_EXAMPLES
from tests.oracle.memory_examples import MEMORY_EXAMPLES
from tests.oracle.random_networks import random_networks
from tests.oracle.worked_examples import OPERATOR_EXAMPLES
from tests.property_profile import profile

_Count = Callable[[list[int], list[int]], int]


def _taken(inputs: list[int], outputs: list[int]) -> int:
    return inputs[0]


def _sent(inputs: list[int], outputs: list[int]) -> int:
    return outputs[0]


def _referred(inputs: list[int], outputs: list[int]) -> int:
    return inputs[1]


_FIRINGS: Final[Mapping[str, _Count]] = {
    **dict.fromkeys(
        ["Gen", "Src", "At", "Paced", "SelectGen", "MetadataGen", "Reassemble", "EagerMerge",
         "RepeatStatic", "StaticReassemble", "Streamify", "DynStreamify", "StaticStreamify",
         "OffChipLoad", "DynOffChipLoad", "BypassLoad", "DynBypassLoad", "Counter", "DynCounter"],
        _sent,
    ),
    "ExpandRef": _referred,
    "RepeatRef": _referred,
}  # fmt: skip
"""By the number of tokens taken from every input and sent on every output; others: taken."""


def check_firings(network: Network) -> None:
    image = build_image(network)
    run = execute(image)
    for unit, spec in zip(run.units, network.units, strict=True):
        if unit["state"] == Status.DONE:
            inputs = [int(run.channels["removed"][c]) for c in spec.inputs]
            outputs = [int(run.channels["sent"][c]) for c in spec.outputs]
            assert unit["fires"] == _FIRINGS.get(spec.op, _taken)(inputs, outputs), spec.name


@profile(30)
@given(random_networks(max_slack=1))
def test_firings_of_random_networks(network: Network) -> None:
    check_firings(network)


@pytest.mark.parametrize(
    "example",
    OPERATOR_EXAMPLES + MEMORY_EXAMPLES + EXTENSION_EXAMPLES,
    ids=lambda example: example.name,
)
def test_firings_of_worked_examples(example: Example) -> None:
    check_firings(example.network)
