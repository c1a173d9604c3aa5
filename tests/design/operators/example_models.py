"""The blocks of examples/models, and how graphs of them are kept in tests/compiler/data."""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from stepsim.design.operators.importers import ImportedGraph, from_torch

EXAMPLES = Path(__file__).parents[3] / "examples" / "models"
DATA = Path(__file__).parent / "data"
NAMES = {
    "gpt2_medium": "gpt2-medium",
    "qwen": "qwen2.5-0.5b",
    "tinyllama": "tinyllama-1.1b",
    "gemma": "gemma-3-1b",
}
"""Files of examples/models, and the built-in graphs of the same blocks."""

SMALL = {
    "gpt2_medium": {"hidden": 48, "inner": 80, "heads": 4},
    "qwen": {"hidden": 56, "inner": 72, "heads": 6, "kv_heads": 2, "head_dim": 8},
    "tinyllama": {"hidden": 64, "inner": 88, "heads": 8, "kv_heads": 2, "head_dim": 8},
    "gemma": {"hidden": 40, "inner": 96, "heads": 4, "kv_heads": 1, "head_dim": 16},
}


def built_in_sizes(file: str) -> dict[str, int]:
    """The small sizes as the built-in block takes them."""
    sizes = SMALL[file]
    if file != "gpt2_medium":
        return sizes
    return {**sizes, "kv_heads": sizes["heads"], "head_dim": sizes["hidden"] // sizes["heads"]}


class Kept(NamedTuple):
    """A graph in a file: full size or small, prefill of 16 or decoding against a cache of 64."""

    file: str
    phase: str
    full: bool

    @property
    def path(self) -> Path:
        size = "full" if self.full else "small"
        return DATA / f"{self.file}_{self.phase}_{size}.json"

    @property
    def sizes(self) -> dict[str, int]:
        return {} if self.full else SMALL[self.file]


KEPT = [
    Kept(file, phase, full)
    for file in NAMES
    for phase, full in (("prefill", False), ("decode", False), ("decode", True))
]
"""Small graphs of both phases, and one of full size: of decoding, which has a cache."""


@cache
def example(file: str) -> ModuleType:
    """A module of examples/models; skips without PyTorch."""
    require_torch()
    spec = importlib.util.spec_from_file_location(f"example_{file}", EXAMPLES / f"{file}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def require_torch() -> Any:
    """PyTorch; .ci/check_skips.py knows the reason of the skip."""
    return pytest.importorskip("torch", reason="no PyTorch: run `make test-torch`")


def require_onnx() -> Any:
    """ONNX; .ci/check_skips.py knows the reason of the skip."""
    return pytest.importorskip("onnx", reason="no PyTorch or ONNX: run `make test-torch`")


def exported(one: Kept) -> ImportedGraph:
    """What the importer makes today of an example."""
    module = example(one.file)
    block, inputs = module.model(one.phase, **one.sizes)
    context = 64 if one.phase == "decode" else 0
    return from_torch(
        block,
        inputs,
        name=f"{NAMES[one.file]} block",
        outputs=module.OUTPUTS,
        dtype="i8",
        weight_dtype="i4",
        attributes={"phase": one.phase, "batch": 1, "context": context, "layers": module.LAYERS},
    )
