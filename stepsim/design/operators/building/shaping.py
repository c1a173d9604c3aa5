"""Views of the values of a graph: no operator is recorded unless a view cannot say it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from stepsim.arguments import is_whole, shown
from stepsim.design.operators.building.recorder import Recorder, Ref
from stepsim.typed import typed_class


@typed_class
class Shaping(Recorder):
    """Reshaping, transposing and slicing."""

    def axis(self, what: str, x: Ref, axis: int) -> int:
        """The number of an axis, counted from 0; negative ones count from the end."""
        if not is_whole(axis) or not -x.rank <= axis < x.rank:
            self.fail(f"{what}: {x} has no axis {shown(axis)}", f"use an int below {x.rank}")
        return axis % x.rank

    def reshape(self, x: Ref, shape: Sequence[int]) -> Ref:
        """The same elements in the same order under another shape; one size may be -1.

        An axis that no view can express is copied first, with what it is merged with.
        """
        sizes = list(shape)
        total, known = prod(x.shape), prod(size for size in sizes if size != -1)
        if sizes.count(-1) == 1 and known and total % known == 0:
            sizes[sizes.index(-1)] = total // known
        if prod(sizes) != total or not all(is_whole(size) and size >= 1 for size in sizes):
            self.fail(f"reshape: {x} does not have shape {tuple(shape)}", "keep the elements")
        view = x.view.simplified().reshaped(sizes)
        if view is None:
            # What is stored now may be merged where the tensor was made with more axes.
            x = self._flat(x, sizes)
            view = x.view.reshaped(sizes)
            assert view is not None
        return replace(x, view=view)

    def _flat(self, x: Ref, sizes: Sequence[int]) -> Ref:
        """A copy in which axes that do not fit those of a shape are one axis, with them."""
        output: list[tuple[str, ...]] = []
        labels = [f"d{axis}" for axis in range(x.rank)]
        wanted, group, have, need = list(sizes)[::-1], list[str](), 1, 1
        for label, size in zip(labels, x.shape, strict=True):
            group.append(label)
            have *= size
            while need < have:
                need *= wanted.pop()
            if need == have:
                output.append(tuple(group))
                group, have, need = [], 1, 1
        if group:
            output.append(tuple(group))
        return self.record("copy", [(x, labels)], output, body=("arg", 0))

    def permute(self, x: Ref, order: Sequence[int]) -> Ref:
        """The axes in another order."""
        axes = [self.axis("permute", x, axis) for axis in order]
        if sorted(axes) != list(range(x.rank)):
            self.fail(
                f"permute: {tuple(order)} is not an order of the axes of {x}", "name each once"
            )
        return replace(x, view=x.view.permuted(axes))

    def transpose(self, x: Ref, first: int = -2, second: int = -1) -> Ref:
        """Two axes exchanged."""
        order = list(range(x.rank))
        a, b = self.axis("transpose", x, first), self.axis("transpose", x, second)
        order[a], order[b] = b, a
        return self.permute(x, order)

    def unsqueeze(self, x: Ref, axis: int) -> Ref:
        """A new axis of size 1 in front of an axis, or with -1 at the end."""
        if not is_whole(axis) or not -x.rank - 1 <= axis <= x.rank:
            self.fail(f"unsqueeze: {x} has no place {shown(axis)}", f"use an int to {x.rank}")
        at = axis % (x.rank + 1)
        return self.reshape(x, (*x.shape[:at], 1, *x.shape[at:]))

    def squeeze(self, x: Ref, axis: int) -> Ref:
        """The value without an axis of size 1."""
        at = self.axis("squeeze", x, axis)
        if x.shape[at] != 1:
            self.fail(f"squeeze: axis {axis} of {x} has size {x.shape[at]}", "name one of size 1")
        return self.reshape(x, (*x.shape[:at], *x.shape[at + 1 :]))

    def expand(self, x: Ref, shape: Sequence[int]) -> Ref:
        """Axes of size 1 repeated; -1 keeps a size, and axes may be added in front."""
        lead = len(shape) - x.rank
        if lead < 0:
            self.fail(f"expand: {x} has more axes than {tuple(shape)}", "give a size for each")
        view = self.reshape(x, (*(1,) * lead, *x.shape)).view
        for axis, (size, old) in enumerate(zip(shape, view.shape, strict=True)):
            if size in (-1, old):
                continue
            if old != 1 or not is_whole(size) or size < 1:
                self.fail(f"expand: {x} does not repeat to {tuple(shape)}", "expand axes of size 1")
            view = view.expanded(axis, size)
        return replace(x, view=view)

    def slice(
        self, x: Ref, axis: int, start: int = 0, stop: int | None = None, step: int = 1
    ) -> Ref:
        """Positions of one axis from ``start`` up to ``stop``; negative ones count from the end."""
        at = self.axis("slice", x, axis)
        size = x.shape[at]
        if not is_whole(step) or step < 1:
            self.fail(f"slice: step is {shown(step)}", "use an int from 1")
        kept = range(size)[start:stop:step]
        if not len(kept):
            self.fail(f"slice: {start}:{stop} of axis {axis} of {x} is empty", "keep a position")
        if kept == range(size):
            return x
        view = x.view.simplified().sliced(at, kept.start, len(kept), step)
        if view is None:
            x = self.copy(x)
            view = x.view.sliced(at, kept.start, len(kept), step)
            assert view is not None  # an axis of a copy is one atom
        return replace(x, view=view)

    def select(self, x: Ref, axis: int, position: int) -> Ref:
        """The value at one position of an axis, without that axis."""
        at = self.axis("select", x, axis)
        if not is_whole(position) or not -x.shape[at] <= position < x.shape[at]:
            self.fail(
                f"select: axis {axis} of {x} has no position {shown(position)}",
                f"use an int below {x.shape[at]}",
            )
        return replace(x, view=x.view.selected(at, position % x.shape[at]))

    def split(self, x: Ref, sizes: int | Sequence[int], axis: int = -1) -> tuple[Ref, ...]:
        """Pieces of an axis, of given sizes or of one size each."""
        at = self.axis("split", x, axis)
        whole = x.shape[at]
        if is_whole(sizes):
            size = int(sizes)  # type: ignore[arg-type]
            if size < 1:
                self.fail(f"split: size is {size}", "use an int from 1")
            pieces = [min(size, whole - done) for done in range(0, whole, size)]
        else:
            pieces = list(sizes)  # type: ignore[arg-type]
        if sum(pieces) != whole:
            self.fail(f"split: {pieces} do not add up to {whole}, axis {axis} of {x}", "add up")
        ends = [sum(pieces[: i + 1]) for i in range(len(pieces))]
        return tuple(
            self.slice(x, at, end - size, end) for size, end in zip(pieces, ends, strict=True)
        )

    def chunk(self, x: Ref, pieces: int, axis: int = -1) -> tuple[Ref, ...]:
        """An axis in so many pieces of one size, the last one perhaps smaller, as PyTorch does."""
        at = self.axis("chunk", x, axis)
        if not is_whole(pieces) or pieces < 1:
            self.fail(f"chunk: {shown(pieces)} pieces", "use an int from 1")
        return self.split(x, -(-x.shape[at] // pieces), at)
