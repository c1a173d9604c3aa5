"""Help tells the defaults that hold; it is shown before the workloads are loaded."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, get_type_hints

import pytest

from stepsim.cli.decoder import DecoderChoice
from stepsim.cli.moe import MoeChoice
from stepsim.workloads import MOE_DEFAULTS
from stepsim.workloads.decoder import DEFAULTS


@pytest.mark.parametrize(
    ("choice", "defaults"),
    [(MoeChoice, MOE_DEFAULTS), (DecoderChoice, DEFAULTS)],
    ids=["moe", "decoder"],
)
def test_help_tells_the_defaults(choice: type, defaults: Mapping[str, Any]) -> None:
    hints = get_type_hints(choice, include_extras=True)
    numbers = {name: value for name, value in defaults.items() if isinstance(value, int)}
    told = {}
    for name in numbers:
        (option,) = hints[name].__metadata__
        found = re.search(r"\(default: .*?(\d+)\)$", option.help)
        assert found is not None, f"{name}: {option.help}"
        told[name] = int(found[1])
    assert told == numbers
    assert numbers
