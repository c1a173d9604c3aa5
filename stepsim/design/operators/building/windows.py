"""Operators over windows: convolutions and pooling as sums and maxima over an affine view.

A window is read where it lies, at ``stride * window + dilation * place``, so that a convolution is
a product of matrices over views of its input; nothing is copied. Results are stored with the
channels last, since a tile has the last two axes of a tensor: positions and channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Literal

from stepsim.arguments import is_number, is_whole, shown
from stepsim.design.operators.building.arithmetic import Arithmetic
from stepsim.design.operators.building.recorder import Labels, Ref
from stepsim.typed import typed_class


@typed_class
class Windows(Arithmetic):
    """Windows of the axes behind the first two of ``[batch, channels, *positions]``."""

    def pad(self, x: Ref, pads: Sequence[tuple[int, int]], fill: float = 0.0) -> Ref:
        """Places around a value, filled with a number.

        Parameters
        ----------
        pads : places before and behind each axis; axes that are left out are the first ones.
        fill : a number, or an infinity.
        """
        if len(pads) > x.rank or any(
            len(pair) != 2 or not all(is_whole(n) and n >= 0 for n in pair) for pair in pads
        ):
            self.fail(
                f"pad: pads are {shown(pads)} for {x}", "give two ints from 0 for each axis of it"
            )
        if not is_number(fill) or fill != fill:
            self.fail(f"pad: fill is {shown(fill)}", "use a number")
        around = [(0, 0)] * (x.rank - len(pads)) + list(pads)
        labels = [f"d{axis}" for axis in range(x.rank)]
        moved = {label: pair for label, pair in zip(labels, around, strict=True) if any(pair)}
        if not moved:
            return x
        x = self.single(x)
        own = dict(zip(labels, x.shape, strict=True))
        order = self._channels_last(x) or range(x.rank)
        made = self.record(
            "pad", [(x, labels)], [(labels[axis],) for axis in order], kind="pad",
            attributes={
                "inside": {label: [first, first + own[label]]
                           for label, (first, _) in moved.items()},
                "fill": float(fill) if abs(fill) != float("inf") else str(float(fill)),
            },
            sizes={label: own[label] + sum(pair) for label, pair in moved.items()},
            starts={label: [first] for label, (first, _) in moved.items()},
        )  # fmt: skip
        return self._as_channels_first(made, order)

    def _padded(self, x: Ref, pads: Sequence[tuple[int, int]], fill: float) -> Ref:
        """A value padded for its windows: its channels become the last axis, which tiles have."""
        if x.tensor not in self._with_channels_last and any(map(any, pads)):
            order = (0, *range(2, x.rank), 1)
            x = self.permute(x, order)
            x = self.pad(x, [*pads, (0, 0)], fill)
            return self._as_channels_first(x, order)
        return self.pad(x, pads, fill)

    def unfold(self, x: Ref, axis: int, width: int, stride: int = 1, dilation: int = 1) -> Ref:
        """Windows of an axis, which may overlap: an axis of windows, and one of places in them."""
        at = self.axis("unfold", x, axis)
        for name, n in (("width", width), ("stride", stride), ("dilation", dilation)):
            if not is_whole(n) or n < 1:
                self.fail(f"unfold: {name} is {shown(n)}", "use an int from 1")
        reach = dilation * (width - 1) + 1
        if reach > x.shape[at]:
            self.fail(
                f"unfold: a window of {reach} places is wider than axis {axis} of {x}",
                "pad the axis, or use a narrower window",
            )
        x = replace(x, view=x.view.simplified())
        if len(x.view.axes[at]) > 1:
            x = self.copy(x)
        windows = (x.shape[at] - reach) // stride + 1
        return replace(x, view=x.view.unfolded(at, windows, width, stride, dilation))

    def conv(
        self,
        x: Ref,
        w: Ref,
        bias: Ref | None = None,
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
    ) -> Ref:
        """A convolution of ``[batch, channels, *positions]``, as PyTorch has it.

        Parameters
        ----------
        w : ``[out, channels / groups, *places]``. It is read in tiles of channels if it is a view
            of a tensor that is stored ``[*places, channels / groups, out]``.
        bias : ``[out]``.
        stride, padding, dilation : of every axis of positions, or one for each.

        Notes
        -----
        ``2 * out * (channels / groups) * prod(places)`` FLOPs for each position of the result.
        """
        spatial = x.rank - 2
        if spatial < 1 or w.rank != x.rank:
            self.fail(f"conv: found {x} and a weight {w}", "give [batch, channels, *positions] and "
                      "[out, channels / groups, *places]")  # fmt: skip
        if not is_whole(groups) or groups < 1 or x.shape[1] % groups or w.shape[0] % groups:
            self.fail(
                f"conv: {shown(groups)} groups of {x.shape[1]} and {w.shape[0]} channels",
                "use a divisor of both",
            )
        if w.shape[1] * groups != x.shape[1]:
            self.fail(
                f"conv: the weight {w} takes {w.shape[1] * groups} channels, {x} has {x.shape[1]}",
                "give a weight [out, channels / groups, *places]",
            )
        if bias is not None and bias.shape != w.shape[:1]:
            self.fail(f"conv: the bias is {bias}", f"give {w.shape[0]} values")
        pads = [(n, n) for n in self._of_each("padding", padding, spatial, 0)]
        steps = self._of_each("stride", stride, spatial, 1)
        apart = self._of_each("dilation", dilation, spatial, 1)
        with self.at("conv"):
            x = self._windows(self._padded(x, pads, 0.0), w.shape[2:], steps, apart)
            x = self.reshape(x, (x.shape[0], groups, w.shape[1], *x.shape[2:]))
            w = self.reshape(w, (groups, w.shape[0] // groups, *w.shape[1:]))
            outer, inner = self._labels(spatial)
            both = [label for pair in zip(outer, inner, strict=True) for label in pair]
            operands: list[tuple[Ref, Labels]] = [
                (x, ["n", "g", "c", *both]), (w, ["g", "k", "c", *inner]),
            ]  # fmt: skip
            made = self.record(
                "conv", operands, [("n",), *((label,) for label in outer), ("g", "k")],
                body=("mul", ("arg", 0), ("arg", 1)), combine="sum",
            )  # fmt: skip
            made = self._as_channels_first(made, (0, *range(2, spatial + 2), 1))
            if bias is None:
                return made
            column = self.reshape(bias, (*bias.shape, *(1,) * spatial))
            return self.elementwise("bias", ("add", ("arg", 0), ("arg", 1)), made, column)

    def pool(
        self,
        x: Ref,
        combine: Literal["sum", "max"],
        places: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        padding: int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
    ) -> Ref:
        """Sums or maxima of windows of ``[batch, channels, *positions]``.

        Parameters
        ----------
        places : width of the windows along every axis of positions, or of all.
        stride : None is ``places``: windows side by side.
        padding : places of zeros, or of minus infinity for maxima, on both sides.
        """
        spatial = x.rank - 2
        if combine not in ("sum", "max") or spatial < 1:
            self.fail(f"pool: found {shown(combine)} of {x}",
                      "use 'sum' or 'max' of [batch, channels, *positions]")  # fmt: skip
        widths = self._of_each("places", places, spatial, 1)
        steps = self._of_each("stride", places if stride is None else stride, spatial, 1)
        pads = [(n, n) for n in self._of_each("padding", padding, spatial, 0)]
        apart = self._of_each("dilation", dilation, spatial, 1)
        with self.at("pool"):
            x = self._padded(x, pads, 0.0 if combine == "sum" else float("-inf"))
            x = self._windows(x, widths, steps, apart)
            outer, inner = self._labels(spatial)
            both = [label for pair in zip(outer, inner, strict=True) for label in pair]
            made = self.record(
                combine, [(x, ["n", "c", *both])],
                [("n",), *((label,) for label in outer), ("c",)], body=("arg", 0), combine=combine,
            )  # fmt: skip
            return self._as_channels_first(made, (0, *range(2, spatial + 2), 1))

    @staticmethod
    def _labels(spatial: int) -> tuple[list[str], list[str]]:
        """Labels of windows, and of places in them, along every axis of positions."""
        names = "dhw"[-spatial:] if spatial <= 3 else [str(axis) for axis in range(spatial)]
        return [f"o{name}" for name in names], [f"k{name}" for name in names]

    def _of_each(
        self, name: str, given: int | Sequence[int], count: int, least: int
    ) -> tuple[int, ...]:
        found = tuple(given) if isinstance(given, Sequence) else (given,) * count
        if len(found) != count or not all(is_whole(n) and n >= least for n in found):
            self.fail(f"{name} is {shown(given)}",
                      f"use an int from {least}, or {count} of them")  # fmt: skip
        return found

    def _windows(
        self, x: Ref, widths: Sequence[int], steps: Sequence[int], apart: Sequence[int]
    ) -> Ref:
        """Every axis behind the first two as windows of it; what no window reaches is left out."""
        if prod(widths) == 1 and set(steps) == {1}:
            shape = [size for position in x.shape[2:] for size in (position, 1)]
            return self.reshape(x, (*x.shape[:2], *shape))
        for i, (width, step, dilation) in enumerate(zip(widths, steps, apart, strict=True)):
            x = self.unfold(x, 2 + 2 * i, width, step, dilation)
        return x
