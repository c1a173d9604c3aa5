"""``Compiled.check``: the values of a design against those of its model."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stepsim.arguments import is_number, is_whole, shown
from stepsim.design.dataflow.graph import DataflowGraph
from stepsim.design.operators.graph import OperatorGraph
from stepsim.design.operators.models.sources import Source, source_of
from stepsim.design.operators.routed import ROUTED, bounds_of, routing_of
from stepsim.design.passes.pipeline import designed
from stepsim.design.programs.program import programs_of
from stepsim.errors import ArgError, CompileError, StepSimError
from stepsim.simulation import run_functional

if TYPE_CHECKING:
    from stepsim.design.choices import Choices
    from stepsim.design.plan.plan import Plan

Array = NDArray[Any]

TOLERANCE = 1e-4
"""Largest error of a value, of the largest value of its tensor: some thousand roundings of f32, in
which everything is computed."""

MOST_TILES = 20_000
"""Largest number of tiles of iterations of all kernels that are evaluated: some seconds of work."""

_COPY = {
    "hidden": 64, "inner": 128, "kv_heads": 2, "head_dim": 32, "tokens": 32, "context": 32,
    "batch": 2, "experts": 4, "active": 2,
}  # fmt: skip
"""Largest sizes of the smaller copy of a model; its heads are two for each key-value head."""


@dataclass(frozen=True, slots=True)
class Checked:
    """A comparison of the values of a design with those of its model.

    Attributes
    ----------
    ok : no error is larger than the tolerance.
    error : the largest one, as a share of the largest value of its tensor.
    where : its tensor and place, with both values.
    against : what the values of the design were compared with.
    compared : number of values.
    tolerance, seed : as given.
    copy : sizes of the smaller copy that was checked in place of the design; empty for the design.
    left_out : why values of the original model were not compared, if there is one.
    """

    ok: bool
    error: float
    where: str
    against: tuple[str, ...]
    compared: int
    tolerance: float
    seed: int
    copy: Mapping[str, int]
    left_out: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The fields, as plain data for JSON."""
        return {**asdict(self), "against": list(self.against), "copy": dict(self.copy)}

    def __str__(self) -> str:
        what = "values of the design"
        if self.copy:
            sizes = ", ".join(f"{name} {size}" for name, size in self.copy.items())
            what = f"values of a smaller copy ({sizes}), as the design is too large to evaluate,"
        verdict = "agree" if self.ok else "DO NOT AGREE"
        left = f"; {self.left_out}" if self.left_out else ""
        return (
            f"check: {what} {verdict} with {' and '.join(self.against)}: of {self.compared:,} the "
            f"largest error is {self.error:.1e} (at most {self.tolerance:g}), at {self.where}; "
            f"inputs drawn with seed {self.seed}{left}"
        )


def checked(
    plan: Plan,
    source: Source | None,
    choices: Choices | None,
    *,
    seed: int = 0,
    tolerance: float = TOLERANCE,
) -> Checked:
    """Compare the values that the programs of a plan compute with those of its operator graph.

    Parameters
    ----------
    source, choices : of the plan; None of one that was read from a file.

    Raises
    ------
    ArgError : the seed is not a whole number from 0, or the tolerance not a number above 0.
    CompileError : the design is too large, and there is no smaller copy of it; or it has an opaque
        operator, whose values are unknown.
    """
    if not is_whole(seed) or seed < 0:
        raise ArgError(f"check: seed is {shown(seed)}; use a whole number from 0")
    if not is_number(tolerance) or not 0 < tolerance < 1:
        raise ArgError(f"check: tolerance is {shown(tolerance)}; use a number above 0, below 1")
    design = plan.graph
    copy: dict[str, int] = {}
    if _tiles(design) > MOST_TILES:
        design, source, copy = _smaller(plan, source, choices)
    graph = design.operators if source is None else source.graph
    imported = None if source is None else source.imported
    values = _drawn(graph, np.random.default_rng(seed), getattr(imported, "arrays", {}))
    known = dict(values)
    for group in programs_of(design, values):
        result = run_functional(group.program, group.tensors(known), scalar="f32")
        known.update(group.results(result.stored))
    expected = graph.evaluate(values)
    against = ["the operator graph"]
    stored = {name: array for name, array in known.items() if name not in values}
    pairs = [(name, array, expected[name]) for name, array in stored.items() if name in expected]
    original, left_out = _original(source, graph, values)
    if original:
        against.append("PyTorch")
        pairs += [(name, known[name], array) for name, array in original.items()]
    error, where = max(_error(*pair) for pair in pairs)
    count = sum(array.size for _, array, _ in pairs)
    return Checked(
        error <= tolerance, error, where, tuple(against), count, float(tolerance), seed, copy,
        left_out,
    )  # fmt: skip


def _tiles(design: DataflowGraph) -> int:
    return sum(kernel.firings for kernel in design.kernels)


def _smaller(
    plan: Plan, source: Source | None, choices: Choices | None
) -> tuple[DataflowGraph, Source, dict[str, int]]:
    """A copy of a named model with the same choices."""
    count = f"{_tiles(plan.graph):,} tiles, of which at most {MOST_TILES:,} are evaluated"
    if source is None or source.named is None or choices is None:
        raise CompileError(
            f"check: {plan.name} has {count}; only models that are named have smaller copies: "
            "compile and check a smaller graph"
        )
    model, given = source.named
    about = plan.graph.operators.attributes
    sizes: dict[str, Any] = {
        name: size for name, size in given.items() if name in ("phase", "attention_layer")
    }
    whole = _whole_sizes(source)
    copy = {name: min(whole[name], most) for name, most in _COPY.items() if name in whole}
    copy["heads"] = copy["kv_heads"] * min(2, whole["heads"] // whole["kv_heads"])
    if about.get("phase") != "decode":
        copy.pop("context", None)
    small = source_of(model, plan.machine, {**sizes, **copy})
    design = designed(small.graph, replace(choices, tiles=None, orders=None))[0]
    if _tiles(design) > MOST_TILES:
        raise CompileError(
            f"check: {plan.name} has {count}, and its smaller copy {_tiles(design):,}; use larger "
            "tiles"
        )
    return design, small, copy


def _whole_sizes(source: Source) -> dict[str, int]:
    """Sizes of a block, by the name that they are given with."""
    graph, about = source.graph, source.graph.attributes
    x = graph.tensors["x"].shape
    head = graph.tensors["k_new"].shape[-1] // about["kv_heads"]
    weights = {tensor.name: tensor.shape for tensor in graph.with_role("weight")}
    inner = weights.get("up.weight") or weights["experts.0.up.weight"]
    names = ("heads", "kv_heads", "tokens", "context", "batch", "experts", "active")
    own = {name: int(about[name]) for name in names if name in about}
    return {**own, "hidden": x[-1], "head_dim": head, "inner": inner[0]}


def _drawn(
    graph: OperatorGraph, random: np.random.Generator, own: Mapping[str, Any]
) -> dict[str, Array]:
    """Normal values, of weights divided by the root of a row; indices where they are wanted."""
    values: dict[str, Array] = {name: own[name] for name in own if name in graph.tensors}
    for op in graph.ops:
        if op.kind in ROUTED:
            name = routing_of(op)
            values[name] = _routing(graph, name, random)
        if op.kind == "gather":
            table, indices = (graph.tensors[operand.tensor] for operand in op.inputs)
            if indices.role != "intermediate":
                rows = table.shape[op.attributes["axis"]]
                values[indices.name] = random.integers(rows, size=indices.shape)
    for tensor in graph.with_role("input", "weight", "state"):
        if tensor.name not in values:
            drawn = random.normal(size=tensor.shape)
            scale = tensor.shape[-1] ** -0.5 if tensor.role == "weight" and tensor.shape else 1.0
            values[tensor.name] = (drawn * scale).astype(np.float32)
    return values


def _routing(graph: OperatorGraph, name: str, random: np.random.Generator) -> Array:
    """Experts of each row, as evenly as a declared maximum may require."""
    rows, active = graph.tensors[name].shape
    experts, most = bounds_of(graph, name)
    left = np.full(experts, most)
    found = np.zeros((rows, active), np.int64)
    for row in found:
        # Those with most room first, so that the last rows find enough experts.
        row[:] = np.lexsort((random.random(experts), -left))[:active]
        left[row] -= 1
    return found


def _original(
    source: Source | None, graph: OperatorGraph, values: Mapping[str, Array]
) -> tuple[dict[str, Array], str]:
    """Results of the PyTorch model that a graph was imported from, and why there are none."""
    torch: Any = sys.modules.get("torch")
    if source is None or source.imported is None:
        return {}, ""
    made = source.original
    program = None if torch is None else torch.export.ExportedProgram
    if program is not None and isinstance(made, program):
        module, arguments = made.module(), made.example_inputs[0]
    elif torch is not None and isinstance(made, tuple) and isinstance(made[0], torch.nn.Module):
        module, arguments = made
    else:
        return {}, "values of the original model are not computed, as it is not one of PyTorch"
    order = getattr(source.imported, "order", ())
    needed = {one.name for one in graph.with_role("input", "state")} - set(
        getattr(source.imported, "arrays", {})
    )
    tensors = [isinstance(argument, torch.Tensor) for argument in arguments]
    if len(order) != sum(tensors) or not needed <= set(order):
        return {}, "PyTorch's values are not computed, as its arguments are not all tensors"
    names = iter(order)
    given = []
    for argument in arguments:
        name = next(names) if isinstance(argument, torch.Tensor) else None
        if name is None:
            given.append(argument)
            continue
        array = np.array(values[name]).reshape(tuple(argument.shape))
        given.append(torch.from_numpy(array).to(argument.dtype))
    try:
        with torch.no_grad():
            results = module(*given)
    except Exception as error:  # whatever the user's module raises
        return {}, f"PyTorch's values are not computed: {type(error).__name__}: {error}"
    flat = [one for one in _leaves(results) if isinstance(one, torch.Tensor)]
    found = {}
    for name, value in zip(graph.outputs, flat, strict=False):
        array = value.detach().to(torch.float32).numpy()
        if array.size == np.prod(graph.tensors[name].shape):
            found[name] = array
    return found, "" if found else "PyTorch returns no tensor of the shape of an output"


def _leaves(results: Any) -> list[Any]:
    if isinstance(results, tuple | list):
        return [leaf for part in results for leaf in _leaves(part)]
    return [results]


def _error(name: str, found: Array, expected: Array) -> tuple[float, str]:
    """The largest error of a tensor, of its largest finite value, and its place; another infinity
    and NaN are errors of 1.
    """
    given, wanted = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    if given.size != wanted.size:
        raise StepSimError(
            f"check: '{name}' has shape {given.shape} in the design and {wanted.shape} in the "
            "model; report this as a bug"
        )
    given = given.reshape(wanted.shape)
    finite = np.isfinite(wanted) & np.isfinite(given)
    scale = float(np.abs(wanted[np.isfinite(wanted)]).max(initial=0.0)) or 1.0
    apart = np.subtract(given, wanted, where=finite, out=np.full(wanted.shape, scale))
    errors = np.where(given == wanted, 0.0, np.abs(apart) / scale)
    at = np.unravel_index(int(errors.argmax()), errors.shape) if errors.size else ()
    place = ", ".join(str(int(n)) for n in at)
    text = f"{name}[{place}]: {float(given[at]):.6g} for {float(wanted[at]):.6g}"
    return float(errors[at]), text
