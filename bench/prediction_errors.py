"""Predicted and simulated cycles of known designs: ``python -m bench.prediction_errors [FILE]``.

Compiles a block of every dense model in both phases, one of a larger model, and networks that are
imported from PyTorch, and prints the table or writes it to FILE, which is
stepsim/design/plan/prediction_errors.csv. It takes some minutes.
"""

from __future__ import annotations

import importlib
import runpy
import sys
from pathlib import Path
from typing import Any, NamedTuple

import stepsim as st
from stepsim.design.operators.importers import from_torch
from stepsim.design.plan.predictions import Prediction, text_of

__all__ = ["CASES", "measured"]

_SIZES = (("prefill", 16), ("prefill", 64), ("decode", 64), ("decode", 511))

SHAPES = {
    "llama-3-8b": st.design.ModelShape(
        "llama-3-8b",
        32,
        4096,
        14336,
        32,
        8,
        128,
        source="config.json of meta-llama/Meta-Llama-3-8B",
    )
}
"""Models beside those with names, whose weights do not fit the chip."""

EXAMPLES = Path(__file__).parents[1] / "examples" / "models"


class Imported(NamedTuple):
    """A network from PyTorch.

    Attributes
    ----------
    rows : of the inputs that are compiled; pixels of a side, of an image.
    sizes : the other arguments of the file's function; without a file, the widths of two linear
        layers with a GELU between them.
    file : in examples/models.
    argument : of its function, which has the rows.
    """

    rows: tuple[int, ...]
    sizes: dict[str, Any]
    file: str = ""
    argument: str = "tokens"


IMPORTED = {
    "mlp of 512 x 2048": Imported((16, 64), {"hidden": 512, "inner": 2048}),
    "mlp of 1024 x 1024": Imported((16, 64), {"hidden": 1024, "inner": 1024}),
    "mamba of 16 x 4": Imported((6,), {"hidden": 16, "states": 4}, "mamba"),
    "mamba of 64 x 16": Imported((8, 16), {}, "mamba"),
    "mamba of 256 x 16": Imported((16,), {"hidden": 256}, "mamba"),
    "mamba of 64 x 16 by steps": Imported((4,), {"scan": "steps"}, "mamba"),
    "resnet18 of 2 channels": Imported((16,), {"channels": 2, "classes": 5}, "resnet18", "size"),
    "experts of 32 x 48": Imported((16,), {}, "experts"),
    "experts of 32 x 48 that choose": Imported((16,), {"way": "expert_choice"}, "experts"),
    "experts of 32 x 48 gathered": Imported((4,), {"way": "gathered"}, "experts"),
}
"""Networks that are imported, by their names in the table."""

CASES = (
    *((model, *size, "") for model in st.design.MODELS for size in _SIZES),
    ("llama-3-8b", "decode", 128, ""),
    ("gpt2-medium", "prefill", 64, "published"),
    ("gpt2-medium", "decode", 511, "published"),
    *((model, "", rows, "") for model in IMPORTED for rows in IMPORTED[model].rows),
)
"""Model, phase, tokens of a prompt or rows of the cache, and configuration of every design.

Imported models have no phase."""


def measured(model: str, phase: str, rows: int, config: str) -> Prediction:
    """One design, on the U55C."""
    given: dict[str, Any] = {"config": config} if config else {}
    source: Any = SHAPES.get(model, model)
    if model in IMPORTED:
        source = _imported(IMPORTED[model], rows)
    else:
        given |= {"phase": phase, "tokens" if phase == "prefill" else "context": rows}
    made = st.compile(source, "u55c", shrink=False, fit=False, **given)
    assert made.plan.predicted is not None
    assert made.plan.unbounded is not None
    return Prediction(model, phase, rows, config, made.plan.predicted, made.plan.unbounded)


def _imported(one: Imported, rows: int) -> st.design.OperatorGraph:
    """The graph of a module, in floating point."""
    torch: Any = importlib.import_module("torch")
    torch.manual_seed(0)
    if one.file:
        model = runpy.run_path(str(EXAMPLES / f"{one.file}.py"))["model"]
        return from_torch(*model(**{one.argument: rows}, **one.sizes))
    nn, (hidden, inner) = torch.nn, one.sizes.values()
    network = nn.Sequential(nn.Linear(hidden, inner), nn.GELU(), nn.Linear(inner, hidden))
    return from_torch(network.eval(), (torch.zeros(rows, hidden),))


def main() -> None:
    """Print the table, or write it to a file."""
    text = text_of(measured(*case) for case in CASES)
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
