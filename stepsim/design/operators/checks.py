"""Rules that an operator graph keeps, each with an error that names operator, place and cure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, get_args

from stepsim.arguments import is_whole, shown
from stepsim.design.operators.expressions import arguments_of, check_expression
from stepsim.design.operators.routed import ROUTED, check_routed
from stepsim.design.operators.structured import COMBINES, STRUCTURED, parts_of
from stepsim.design.operators.types import Index, Op, Operand, Role, Tensor
from stepsim.dtypes import dtype_of
from stepsim.errors import CompileError, DTypeError, did_you_mean

if TYPE_CHECKING:
    from stepsim.design.operators.graph import OperatorGraph


def verify(graph: OperatorGraph) -> None:
    """Refuse a graph that is not well formed.

    Raises
    ------
    CompileError : the first rule that is broken.
    """
    _check_tensors(graph)
    repeated = [name for name, count in Counter(op.name for op in graph.ops).items() if count > 1]
    if repeated:
        raise CompileError(
            f"operator graph '{graph.name}': several operators are called '{repeated[0]}'; give "
            "each a name of its own"
        )
    ready = {t.name for t in graph.with_role("input", "weight", "state")}
    for op in graph.ops:
        _check_op(graph, op)
        for operand in op.inputs:
            if operand.tensor not in ready:
                op.refuse(
                    f"reads '{operand.tensor}' before an operator makes it",
                    "list operators in an order in which they can run",
                )  # fmt: skip
        made = graph.tensors[op.output.tensor]
        if made.role not in ("intermediate", "output"):
            op.refuse(f"writes '{made.name}', which is {_a(made.role)}", "write to another")
        if made.name in ready:
            op.refuse(f"writes '{made.name}' a second time", "write to another tensor")
        ready.add(made.name)
    _check_use(graph, ready)
    check_routed(graph)


def check_loads(graph: OperatorGraph) -> None:
    """Refuse a graph whose operators compute with what programs do not load.

    Positions that choose rows of a table are addresses of the program and may be whole numbers.

    Raises
    ------
    CompileError : an operator reads whole numbers or flags as data; names it and the tensor.
    """
    for op in graph.ops:
        for slot, operand in enumerate(op.inputs):
            tensor = graph.tensors[operand.tensor]
            if tensor.role in ("intermediate", "output") or op.kind in ROUTED:
                continue
            if (op.kind == "gather" and slot == 1) or dtype_of(tensor.dtype).is_arithmetic:
                continue
            op.refuse(
                f"computes with the {tensor.role} '{tensor.name}' of {tensor.dtype}, which "
                "programs do not load",
                "pass numbers of f32, f16, bf16 or i8 in its place, such as x.float() of a tensor "
                "x, or make it part of the model (a buffer, an initializer)",
            )


def _a(role: str) -> str:
    return f"{'an' if role[0] in 'aeiou' else 'a'} {role}"


def _check_tensors(graph: OperatorGraph) -> None:
    where = f"operator graph '{graph.name}'"
    for key, tensor in graph.tensors.items():
        if key != tensor.name:
            raise CompileError(
                f"{where}: tensor '{tensor.name}' is listed under the name {shown(key)}"
            )
        if tensor.role not in get_args(Role):
            near = did_you_mean(tensor.role, get_args(Role))
            raise CompileError(f"{where}: tensor '{key}' has role '{tensor.role}'{near}")
        if not all(is_whole(size) and size >= 1 for size in tensor.shape):
            raise CompileError(
                f"{where}: tensor '{key}' has shape {tensor.shape}, expected sizes from 1"
            )
        try:
            dtype_of(tensor.dtype)
        except DTypeError as error:
            raise CompileError(f"{where}: tensor '{key}': {error}") from None


def _check_use(graph: OperatorGraph, made: set[str]) -> None:
    read = {operand.tensor for op in graph.ops for operand in op.inputs}
    for tensor in graph.tensors.values():
        if tensor.name not in made:
            raise CompileError(
                f"operator graph '{graph.name}': no operator makes {tensor}; remove it, or write it"
            )
    for tensor in graph.tensors.values():
        if tensor.role != "output" and tensor.name not in read:
            raise CompileError(
                f"operator graph '{graph.name}': nothing reads {tensor}; remove it, or make it an "
                "output"
            )


def _check_op(graph: OperatorGraph, op: Op) -> None:
    names = [dim.name for dim in op.dims]
    if len(set(names)) != len(names):
        op.refuse(f"dims {', '.join(names)} are not distinct", "rename one")
    for dim in op.dims:
        if dim.kind not in ("parallel", "reduction"):
            op.refuse(f"dim {dim.name} is '{dim.kind}'", "use parallel or reduction")
        if not (is_whole(dim.size) and dim.size >= 1):
            op.refuse(f"dim {dim.name} has size {dim.size}", "use an int from 1")
    for operand in (*op.inputs, op.output):
        if operand.tensor not in graph.tensors:
            near = did_you_mean(operand.tensor, graph.tensors)
            raise CompileError(f"{op.title()}: there is no tensor '{operand.tensor}'{near}")
    if op.kind == "generic":
        _check_generic(op)
    else:
        _check_structured(op)
    for slot, operand in enumerate(op.inputs):
        _check_access(op, operand, graph.tensors[operand.tensor], slot)
    _check_output(op, graph.tensors[op.output.tensor])
    _check_tiling(op)


def _check_generic(op: Op) -> None:
    try:
        check_expression(op.body, len(op.inputs))
    except CompileError as error:
        raise CompileError(f"{op.title()}: {error}") from None
    assert op.body is not None
    unread = sorted(set(range(len(op.inputs))) - set(arguments_of(op.body)))
    if unread:
        op.refuse(f"the body does not use input {unread[0]}", "remove that input")
    if op.combine is not None and op.combine not in COMBINES:
        op.refuse(f"combine is '{op.combine}'", "use sum, max or None")
    if (op.combine is None) != (not op.reductions):
        op.refuse(
            f"combine is {op.combine} with reduction dims {op.reductions}",
            "use combine with reduction dims, and only with them",
        )  # fmt: skip
    if op.attributes:
        op.refuse(f"a generic operator has attributes {dict(op.attributes)}", "remove them")


def _check_structured(op: Op) -> None:
    if op.kind not in STRUCTURED:
        near = did_you_mean(op.kind, ("generic", *STRUCTURED))
        raise CompileError(f"{op.title()}: unknown kind '{op.kind}'{near}")
    kind = STRUCTURED[op.kind]
    if op.body is not None or op.combine is not None:
        op.refuse(f"{op.kind} has a body or combine", "use those in generic operators only")
    if op.reductions and not kind.reduces:
        op.refuse(f"{op.kind} has reduction dims {op.reductions}", "make them parallel")
    expected = "some" if kind.inputs is None else kind.inputs
    if not op.inputs or (kind.inputs is not None and len(op.inputs) != kind.inputs):
        op.refuse(f"{op.kind} takes {expected} inputs, found {len(op.inputs)}", "give those")
    if set(op.attributes) != set(kind.attributes):
        op.refuse(
            f"{op.kind} has attributes {sorted(op.attributes)}",
            f"give {', '.join(sorted(kind.attributes))}",
        )  # fmt: skip
    for name, (fits, words) in kind.attributes.items():
        if not fits(op, op.attributes[name]):
            op.refuse(f"{name} is {op.attributes[name]!r}", f"use {words}")


def _check_access(op: Op, operand: Operand, tensor: Tensor, slot: int) -> None:
    sizes, first = op.sizes, dict.fromkeys(op.sizes, 0)
    for dim, (start, end) in parts_of(op, slot).items():  # It is read on its own part only.
        first[dim], sizes[dim] = start, end
    _check_shape(op, operand, tensor, sizes)
    for axis, (index, size) in enumerate(zip(operand.access, tensor.shape, strict=True)):
        if op.kind == "gather" and slot == 0 and axis == op.attributes["axis"]:
            if index.terms or index.offset:
                op.refuse(
                    f"axis {axis} of {operand} is given", "leave it 0: the indices determine it"
                )
            continue
        low = high = index.offset
        for dim, n in index.terms:
            ends = (n * first[dim], n * (sizes[dim] - 1))
            low, high = low + min(ends), high + max(ends)
        if low < 0 or high >= size:
            op.refuse(
                f"{operand} reads positions {low} to {high} of axis {axis}, which has {size}",
                "check dims, coefficients and offset",
            )  # fmt: skip


def _check_shape(op: Op, operand: Operand, tensor: Tensor, sizes: dict[str, int]) -> None:
    if len(operand.access) != len(tensor.shape):
        op.refuse(
            f"{operand} has {len(operand.access)} positions, {tensor} has "
            f"{len(tensor.shape)} axes", "give one position for each axis",
        )  # fmt: skip
    for index in operand.access:
        dims = [dim for dim, _ in index.terms]
        for dim, n in index.terms:
            if dim not in sizes:
                near = did_you_mean(dim, sizes)
                raise CompileError(f"{op.title()}: {operand} uses dim '{dim}'{near}")
            if n == 0 or dims.count(dim) > 1:
                op.refuse(f"{operand} has dim '{dim}' times 0 or twice", "sum its terms up")


def _check_output(op: Op, tensor: Tensor) -> None:
    """Every element is written exactly once: each axis is a mixed-radix number of own dims."""
    _check_shape(op, op.output, tensor, op.sizes)
    parallel = {dim.name for dim in op.dims if dim.kind == "parallel"}
    used = [dim for index in op.output.access for dim, _ in index.terms]
    if set(used) != parallel or len(used) != len(parallel):
        op.refuse(
            f"{op.output} must use each parallel dim once: {', '.join(sorted(parallel))}",
            "make the others reduction dims",
        )  # fmt: skip
    for axis, (index, size) in enumerate(zip(op.output.access, tensor.shape, strict=True)):
        if index.offset or not _covers(index, op.sizes, size):
            op.refuse(
                f"{op.output} does not write each of the {size} positions of axis {axis} once",
                "use coefficients 1, n, n*m, ... of dims of sizes n, m, ... and offset 0",
            )  # fmt: skip


def _covers(index: Index, sizes: dict[str, int], size: int) -> bool:
    # Dims of size 1 do not move, whatever their coefficient.
    step = 1
    for dim, n in sorted(index.terms, key=lambda term: (term[1], sizes[term[0]])):
        if sizes[dim] > 1:
            if n != step:
                return False
            step *= sizes[dim]
    return step == size


def _check_tiling(op: Op) -> None:
    if op.tiling is None:
        return
    tiling, sizes = op.tiling, op.sizes
    if sorted(tiling.order) != sorted(sizes):
        op.refuse(f"the order of loops is {tiling.order}", f"order {', '.join(sizes)}")
    if op.kind == "scan" and tiling.order[-1] != op.attributes["along"]:
        op.refuse(
            f"the innermost loop is {tiling.order[-1]}",
            f"a scan keeps one tile of sums, so make {op.attributes['along']} the innermost",
        )
    for dim, step in tiling.tile.items():
        if dim not in sizes or not is_whole(step) or step < 1 or sizes[dim] % step:
            op.refuse(f"tile {step} of dim {dim}", f"use a divisor of the size {sizes.get(dim)}")
    most = op.iterations
    if not (is_whole(tiling.unroll) and 1 <= tiling.unroll <= most):
        op.refuse(f"unroll is {tiling.unroll}", f"use an int from 1 to {most}")
