"""Element-wise operators, reductions and products of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from stepsim.arguments import is_number, shown
from stepsim.design.operators.building.recorder import Labels, Ref
from stepsim.design.operators.building.shaping import Shaping
from stepsim.design.operators.expressions import Expr, check_expression
from stepsim.errors import CompileError
from stepsim.typed import typed_but, typed_class

_PRODUCT: Expr = ("mul", ("arg", 0), ("arg", 1))


@typed_class
class Arithmetic(Shaping):
    """What linalg calls generic operators."""

    def elementwise(self, name: str, body: Expr, *inputs: Ref) -> Ref:
        """An expression of values that broadcast as in numpy.

        Parameters
        ----------
        body : see :mod:`stepsim.design.operators.expressions`.
        """
        try:
            check_expression(body, len(inputs))
        except CompileError as error:
            self.fail(f"{name}: {error}", "correct the expression")
        rank = max((x.rank for x in inputs), default=0)
        shape = [1] * rank
        for x in inputs:
            for axis, size in enumerate(x.shape, rank - x.rank):
                shape[axis] = max(shape[axis], size)
        operands = []
        for x in inputs:
            pairs = enumerate(x.shape, rank - x.rank)
            labels = [f"d{at}" if size == shape[at] or size > 1 else None for at, size in pairs]
            operands.append((x, labels))
        orders = (self._channels_last(x) for x in inputs if x.shape == tuple(shape))
        order = next((found for found in orders if found is not None), range(rank))
        made = self.record(name, operands, [(f"d{axis}",) for axis in order], body=body)
        return self._as_channels_first(made, order)

    @typed_but("operands")
    def apply(self, function: str, *operands: Ref | float) -> Ref:
        """A function that ``st.fn`` has, of values and numbers."""
        inputs: list[Ref] = []
        parts: list[Expr] = []
        for operand in operands:
            if isinstance(operand, Ref):
                known = next((i for i, x in enumerate(inputs) if x is operand), len(inputs))
                if known == len(inputs):
                    inputs.append(operand)
                parts.append(("arg", known))
            elif is_number(operand):
                parts.append(("const", float(operand)))
            else:
                self.fail(f"{function}: found {shown(operand)}", "give values and numbers")
        if not inputs:
            self.fail(f"{function}: all operands are numbers", "give a value")
        return self.elementwise(function, (function, *parts), *inputs)

    @typed_but("x", "y")
    def add(self, x: Ref | float, y: Ref | float) -> Ref:
        return self.apply("add", x, y)

    @typed_but("x", "y")
    def sub(self, x: Ref | float, y: Ref | float) -> Ref:
        return self.apply("sub", x, y)

    @typed_but("x", "y")
    def mul(self, x: Ref | float, y: Ref | float) -> Ref:
        return self.apply("mul", x, y)

    @typed_but("x", "y")
    def div(self, x: Ref | float, y: Ref | float) -> Ref:
        return self.apply("div", x, y)

    def scale(self, x: Ref, factor: float) -> Ref:
        """The value times a number."""
        return self.elementwise("scale", ("mul", ("arg", 0), ("const", float(factor))), x)

    def exp(self, x: Ref) -> Ref:
        return self.apply("exp", x)

    def rsqrt(self, x: Ref) -> Ref:
        return self.apply("rsqrt", x)

    def square(self, x: Ref) -> Ref:
        return self.apply("square", x)

    def silu(self, x: Ref) -> Ref:
        return self.apply("silu", x)

    def gelu(self, x: Ref, approximate: Literal["none", "tanh"] = "none") -> Ref:
        """GELU in its exact form, or by tanh, as PyTorch names them."""
        names = {"none": "gelu", "tanh": "gelu_tanh"}
        if approximate not in names:
            self.fail(f"gelu: approximate is {shown(approximate)}", "use 'none' or 'tanh'")
        return self.apply(names[approximate], x)

    def reduce(
        self,
        name: str,
        combine: Literal["sum", "max"],
        x: Ref,
        axis: int = -1,
        keepdim: bool = False,
        body: Expr = ("arg", 0),
    ) -> Ref:
        """A sum or the largest value along an axis, of an expression of each value."""
        at = self.axis(name, x, axis)
        labels: list[str] = [f"d{i}" for i in range(x.rank)]
        kept = [(label,) for i, label in enumerate(labels) if i != at]
        made = self.record(name, [(x, labels)], kept, body=body, combine=combine)
        return self.unsqueeze(made, at) if keepdim else made

    def sum(self, x: Ref, axis: int = -1, keepdim: bool = False) -> Ref:
        return self.reduce("sum", "sum", x, axis, keepdim)

    def max(self, x: Ref, axis: int = -1, keepdim: bool = False) -> Ref:
        return self.reduce("max", "max", x, axis, keepdim)

    def mean(self, x: Ref, axis: int = -1, keepdim: bool = False) -> Ref:
        at = self.axis("mean", x, axis)
        return self.scale(self.sum(x, at, keepdim), 1 / x.shape[at])

    def linear(self, x: Ref, w: Ref, bias: Ref | None = None) -> Ref:
        """``x @ w.T + bias``, of a weight (out, in), as in PyTorch."""
        if w.rank != 2:
            self.fail(f"linear: the weight is {w}", "give a matrix (out, in)")
        return self._affine("linear", x, w, ["n", "k"], bias)

    def matmul(self, x: Ref, y: Ref) -> Ref:
        """``x @ y``, of matrices or of batches of them, which broadcast as in numpy."""
        if min(x.rank, y.rank) < 1 or (y.rank == 1 and x.rank == 1):
            self.fail(f"matmul: found {x} and {y}", "give a matrix at least")
        if y.rank == 1:
            lead = self._lead(x.shape[:-1])
            operands: list[tuple[Ref, Labels]] = [(x, [*lead, "k"]), (y, ["k"])]
            return self._product("matmul", operands, lead)
        if y.rank == 2:
            return self._affine("matmul", x, y, ["k", "n"], None)
        return self._batched("matmul", x, y)

    def bmm(self, x: Ref, y: Ref) -> Ref:
        """Products of as many matrices in both batches."""
        if x.rank != 3 or y.rank != 3 or x.shape[0] != y.shape[0]:
            self.fail(f"bmm: found {x} and {y}", "give two batches of as many matrices")
        return self._batched("bmm", x, y)

    def einsum(self, operands: Sequence[str], output: str, *inputs: Ref) -> Ref:
        """A sum of products over named axes.

        Parameters
        ----------
        operands : of each input a letter for every axis.
        output : letters of the result; what it lacks is summed up.
        """
        if len(operands) != len(inputs) or not inputs:
            self.fail(
                f"einsum: {len(operands)} texts for {len(inputs)} inputs", "give one for each"
            )
        for letters, x in zip(operands, inputs, strict=True):
            if len(letters) != x.rank or len(set(letters)) != len(letters):
                self.fail(f"einsum: {shown(letters)} for {x}", "give each axis a letter of its own")
        body: Expr = ("arg", 0)
        for number in range(1, len(inputs)):
            body = ("mul", body, ("arg", number))
        pairs = [(x, list(letters)) for letters, x in zip(operands, inputs, strict=True)]
        kept = [(letter,) for letter in output]
        return self.record("einsum", pairs, kept, body=body, combine="sum")

    def _batched(self, name: str, x: Ref, y: Ref) -> Ref:
        rows = ["m"] if x.rank > 1 else []
        rank = max(x.rank, y.rank) - 2
        batch = [f"b{axis}" for axis in range(rank)]
        shapes = [(1,) * (rank - len(one)) + one for one in (x.shape[:-2], y.shape[:-2])]
        sizes = [max(pair) for pair in zip(*shapes, strict=True)]

        def moving(z: Ref) -> list[str | None]:
            own = z.shape[:-2]
            at = rank - len(own)
            return [
                label if size == full else None if size == 1 else label
                for label, size, full in zip(batch[at:], own, sizes[at:], strict=True)
            ]

        operands = [(x, [*moving(x), *rows, "k"]), (y, [*moving(y), "k", "n"])]
        return self._product(name, operands, [*batch, *rows, "n"])

    @staticmethod
    def _lead(shape: Sequence[int]) -> list[str]:
        """Labels of the axes in front of the last one of the left operand."""
        return [*(f"b{axis}" for axis in range(len(shape) - 1)), *(["m"] if shape else [])]

    def _affine(self, name: str, x: Ref, w: Ref, labels: list[str], bias: Ref | None) -> Ref:
        if x.rank < 1:
            self.fail(f"{name}: x is {x}", "give one axis at least")
        lead = self._lead(x.shape[:-1])
        y = self._product(name, [(x, [*lead, "k"]), (w, labels)], [*lead, "n"])
        if bias is None:
            return y
        if bias.shape != (y.shape[-1],):
            self.fail(f"{name}: the bias is {bias}", f"give {y.shape[-1]} values")
        return self.elementwise("bias", ("add", ("arg", 0), ("arg", 1)), y, bias)

    def _product(
        self, name: str, operands: Sequence[tuple[Ref, Labels]], output: Sequence[str]
    ) -> Ref:
        kept = [(label,) for label in output]
        return self.record(name, operands, kept, body=_PRODUCT, combine="sum")
