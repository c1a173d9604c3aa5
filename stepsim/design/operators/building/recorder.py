"""What records an operator graph: tensors, views of them, and operators over labeled axes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count, pairwise
from math import prod
from pathlib import PurePath
from typing import Any, Literal, NoReturn

from stepsim.arguments import is_whole
from stepsim.design.operators.building.stored_axes import StoredAxes, merged
from stepsim.design.operators.expressions import Expr
from stepsim.design.operators.graph import Dim, Index, Op, Operand, OperatorGraph, Role, Tensor
from stepsim.design.operators.views import View, cuts_of, mixed_radix
from stepsim.dtypes import DType, dtype_of
from stepsim.errors import CompileError
from stepsim.graph import user_frame
from stepsim.shown import shown
from stepsim.typed import typed_class

Labels = Sequence[str | None]
"""The dim that each axis of an operand moves along; None for an axis of size 1 that repeats."""

_COPY: Expr = ("arg", 0)


@dataclass(frozen=True, slots=True)
class Ref:
    """A value of a graph under construction: a view of a tensor.

    Attributes
    ----------
    tensor : the tensor by the key of the recorder.
    view : its axes, over the axes that the tensor was made with.
    """

    tensor: str
    view: View

    @property
    def shape(self) -> tuple[int, ...]:
        return self.view.shape

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.view.axes)

    def __repr__(self) -> str:
        return f"Ref({self.tensor}: {'x'.join(map(str, self.shape)) or 'scalar'})"


@typed_class
class Recorder:
    """Records tensors and operators; :class:`GraphBuilder` adds what models are made of.

    Parameters
    ----------
    dtype : scalar type of activations, and of weights of one axis.
    weight_dtype : that of weights of more axes; None is ``dtype``.
    attributes : of the graph.
    """

    def __init__(
        self,
        name: str,
        dtype: DType | str = "i8",
        weight_dtype: DType | str | None = None,
        **attributes: Any,
    ) -> None:
        self.name = name
        self.dtype = dtype_of(dtype).text
        self.weight_dtype = self.dtype if weight_dtype is None else dtype_of(weight_dtype).text
        self.attributes = attributes
        self._tensors: dict[str, StoredAxes] = {}
        self._ops: list[Op] = []
        self._with_channels_last: set[str] = set()
        self._path = ""
        self._line = ""

    @contextmanager
    def at(self, module_path: str, line: str = "") -> Iterator[None]:
        """Operators made inside are called by a module path, and stand for a line of source.

        A path inside another one continues it.
        """
        before = self._path, self._line
        self._path = f"{before[0]}.{module_path}" if before[0] else module_path
        self._line = line or before[1]
        try:
            yield
        finally:
            self._path, self._line = before

    @property
    def where(self) -> str:
        """Module path and source line that an operator made now stands for."""
        line = self._line
        if not line:
            path, number = user_frame()
            line = f"{PurePath(path).name}:{number}" if path else ""
        return f"{self._path} ({line})" if self._path and line else self._path or line

    def fail(self, what: str, cure: str) -> NoReturn:
        """Raise a CompileError that says where the model asks for what cannot be."""
        where = f" ({self.where})" if self.where else ""
        raise CompileError(f"{self.name}{where}: {what}; {cure}")

    # Tensors from and to off chip

    def input(self, name: str, shape: Sequence[int], dtype: DType | str | None = None) -> Ref:
        """An activation, table or index tensor that every run is given."""
        return self._declared(name, shape, dtype or self.dtype, "input")

    def weight(self, name: str, shape: Sequence[int], dtype: DType | str | None = None) -> Ref:
        """A constant of the model; the type of a matrix is ``weight_dtype``."""
        own = self.weight_dtype if len(shape) > 1 else self.dtype
        return self._declared(name, shape, dtype or own, "weight")

    def state(self, name: str, shape: Sequence[int], dtype: DType | str | None = None) -> Ref:
        """What stays off chip from one run to the next: a KV cache."""
        return self._declared(name, shape, dtype or self.dtype, "state")

    def output(self, x: Ref, name: str) -> Ref:
        """Store a value off chip, under a name; operators may still read it.

        A view that is not how its tensor is stored, and a tensor from off chip, is copied.
        """
        stored = self._tensors[x.tensor]
        if stored.role == "intermediate":
            self._merge(x)
        current = self._current(x)
        if stored.role != "intermediate" or not current.is_plain(stored.stored):
            x = self.copy(x)
            stored = self._tensors[x.tensor]
        for other in self._tensors.values():
            if other is stored or other.name != name:
                continue
            if other.role != "intermediate":
                self.fail(f"a tensor is called '{name}' already", "give the output another name")
            # Nobody chose the name of an intermediate result: files of others may use it.
            other.name = self._unused(f"{name}_inside")
        stored.name, stored.role = name, "output"
        return x

    def _unused(self, name: str) -> str:
        """The name, with a number if a tensor has it."""
        known = {one.name for one in self._tensors.values()}
        numbered = (f"{name}_{number}" for number in count(2))
        return name if name not in known else next(one for one in numbered if one not in known)

    def _declared(self, name: str, shape: Sequence[int], dtype: DType | str, role: Role) -> Ref:
        sizes = tuple(shape)
        if not all(is_whole(size) and size >= 1 for size in sizes):
            self.fail(f"{role} '{name}' has shape {sizes}", "use ints from 1")
        if any(other.name == name for other in self._tensors.values()):
            self.fail(f"a tensor is called '{name}' already", f"give the {role} another name")
        return self._new(name, sizes, dtype_of(dtype).text, role)

    def _new(self, name: str, shape: tuple[int, ...], dtype: str, role: Role) -> Ref:
        groups = tuple((axis,) for axis in range(len(shape)))
        self._tensors[name] = StoredAxes(name, shape, dtype, role, groups)
        return Ref(name, View.plain(shape))

    # Layout of tensors

    def _current(self, x: Ref) -> View:
        """The view over the axes as they are stored now."""
        return replace(x.view, access=self._tensors[x.tensor].places(x.view.access)).simplified()

    def _merge(self, x: Ref) -> None:
        """Store an intermediate tensor with the axes of a view, where it only permutes and merges.

        Operators recorded earlier are updated to the new place; views are of the axes that the
        tensor was made with.
        """
        stored = self._tensors[x.tensor]
        if stored.role != "intermediate" or x.tensor in self._with_channels_last:
            return  # Tiles of windows have positions and channels; a copy takes less than others.
        view, sizes = self._current(x), stored.stored
        home: dict[str, int] = {}
        for axis, index in enumerate(view.access):
            if sizes[axis] > 1 and (index.dim is None or view.sizes[index.dim] != sizes[axis]):
                return
            if index.dim is not None and sizes[axis] > 1:
                home[index.dim] = axis
        if any(a.size > 1 and a.name not in home for atoms in view.axes for a in atoms):
            return
        unit = [axis for axis, size in enumerate(sizes) if size == 1]
        groups: list[list[int]] = []
        for atoms in view.axes:
            axes = [home[atom.name] for atom in atoms if atom.name in home]
            if not axes and unit:
                axes = [unit.pop(0)]
            if axes:
                groups.append(axes)
        if unit:  # An axis of size 1 is at home in any other.
            groups[:1] = [[*unit, *(groups[0] if groups else ())]]

        def moved(operand: Operand) -> Operand:
            if operand.tensor != x.tensor:
                return operand
            return Operand(operand.tensor, merged(operand.access, sizes, groups))

        self._ops = [
            replace(op, inputs=tuple(map(moved, op.inputs)), output=moved(op.output))
            for op in self._ops
        ]
        stored.groups = tuple(
            tuple(old for axis in axes for old in stored.groups[axis]) for axes in groups
        )

    def _channels_last(self, x: Ref) -> tuple[int, ...] | None:
        """The axes in the order in which they are stored, of what windows made; None of others."""
        if x.tensor not in self._with_channels_last:
            return None
        view = self._current(x)
        places = [index.dim for index in view.access]
        names = [axis[0].name for axis in view.axes if len(axis) == 1]
        moving = [name for name in places if name in names]
        if len(names) != x.rank or len(moving) != len(places):
            return None
        still = [name for name in names if name not in moving]
        return tuple(names.index(name) for name in (*still, *moving))

    def _as_channels_first(self, made: Ref, order: Sequence[int]) -> Ref:
        """What was recorded with its axes in another order, as ``order`` lists them."""
        if tuple(order) == tuple(range(made.rank)):
            return made
        self._with_channels_last.add(made.tensor)
        return replace(
            made, view=made.view.permuted([list(order).index(i) for i in range(made.rank)])
        )

    def single(self, x: Ref) -> Ref:
        """The value with one atom for every axis: stored so, or copied."""
        if any(len(atoms) > 1 for atoms in self._current(x).axes):
            self._merge(x)
        if any(len(atoms) > 1 for atoms in self._current(x).axes):
            return self.copy(x)
        return x

    def copy(self, x: Ref) -> Ref:
        """The value as a tensor of its own."""
        labels = [f"d{axis}" for axis in range(x.rank)]
        return self.record("copy", [(x, labels)], [(label,) for label in labels], body=_COPY)

    # Operators

    def record(
        self,
        name: str,
        operands: Sequence[tuple[Ref, Labels]],
        output: Sequence[tuple[str, ...]],
        *,
        kind: str = "generic",
        body: Expr | None = None,
        combine: Literal["sum", "max"] | None = None,
        attributes: Mapping[str, Any] | None = None,
        dtype: str | None = None,
        sizes: Mapping[str, int] | None = None,
        starts: Mapping[str, Sequence[int]] | None = None,
    ) -> Ref:
        """Add an operator over labeled axes.

        Axes of one label move together. Where a label is several atoms of an operand, the tensor is
        stored with them merged if it can be; otherwise the label becomes several dims.

        Parameters
        ----------
        output : labels of each axis of the result, outermost first; labels that it lacks are
            reduced.
        sizes : of labels that no operand has, and of those of ``starts``.
        starts : labels along which each operand is only a part, an atom, and where each starts.

        Raises
        ------
        CompileError : axes of one label have different sizes.
        """
        partial = dict(starts or {})
        found = self._label_sizes(name, operands, dict(sizes or {}), partial)
        operands, dims = self._aligned(operands, found, partial)
        kept = {label for labels in output for label in labels}
        order = [*dict.fromkeys(label for labels in output for label in labels)]
        order += [label for label in dims if label not in kept]
        if unknown := [label for label in order if label not in dims]:
            self.fail(
                f"{name}: no operand has the label {', '.join(map(shown, unknown))} of the output",
                "use labels of operands, or give the size in sizes",
            )
        loops = tuple(
            replace(dim, kind="parallel" if label in kept else "reduction")
            for label in order
            for dim in dims[label]
        )
        unique = self._unique(name)
        read = tuple(
            self._operand(x, labels, dims, {label: at[slot] for label, at in partial.items()})
            for slot, (x, labels) in enumerate(operands)
        )
        places = [mixed_radix([d for label in labels for d in dims[label]]) for labels in output]
        shape = tuple(prod(found[label] for label in labels) for labels in output)
        made = self._new(unique, shape, dtype or self.dtype, "intermediate")
        self._ops.append(
            Op(
                unique,
                kind,
                loops,
                read,
                Operand(unique, tuple(places)),
                body,
                combine if any(loop.kind == "reduction" for loop in loops) else None,
                dict(attributes or {}),
                self.where,
            )
        )
        return made

    def _unique(self, name: str) -> str:
        base = f"{self._path}.{name}" if self._path else name
        taken = {stored.name for stored in self._tensors.values()} | set(self._tensors)
        number, found = 1, base
        while found in taken:
            number += 1
            found = f"{base}_{number}"
        return found

    def _label_sizes(
        self,
        name: str,
        operands: Sequence[tuple[Ref, Labels]],
        found: dict[str, int],
        partial: Collection[str],
    ) -> dict[str, int]:
        for x, labels in operands:
            if len(labels) != x.rank:
                self.fail(f"{name}: {x} has {x.rank} axes, expected {len(labels)}", "reshape it")
            for label, size in zip(labels, x.shape, strict=True):
                if label is None or label in partial:
                    continue
                if found.setdefault(label, size) != size:
                    shapes = " and ".join(repr(other) for other, _ in operands)
                    self.fail(
                        f"{name}: {shapes} do not fit, dim {label} is {found[label]} and {size}",
                        "check the shapes",
                    )  # fmt: skip
        return found

    def _aligned(
        self,
        operands: Sequence[tuple[Ref, Labels]],
        sizes: Mapping[str, int],
        partial: Collection[str],
    ) -> tuple[list[tuple[Ref, Labels]], dict[str, list[Dim]]]:
        """Operands and the dims of each label, into which all of them can be cut."""
        refs = list(operands)
        for x, labels in refs:
            axes = self._current(x).axes
            if any(len(a) > 1 for a, label in zip(axes, labels, strict=True) if label is not None):
                self._merge(x)
        dims: dict[str, list[Dim]] = {}
        for label, size in sizes.items():
            cuts = {size}
            for number, (x, labels) in enumerate(refs):
                if label not in labels or label in partial:
                    continue
                own = cuts_of(self._current(x).axes[list(labels).index(label)])
                together = sorted({1, *cuts, *own})
                if any(b % a for a, b in pairwise(together)):
                    # The axis is cut at other places than before: no loop fits both.
                    refs[number] = (self.copy(x), labels)
                else:
                    cuts.update(own)
            ends = [1, *sorted(cuts - {1})]
            parts = [b // a for a, b in pairwise(ends)][::-1] or [1]
            names = [label] if len(parts) == 1 else [f"{label}{i}" for i in range(len(parts))]
            dims[label] = [Dim(n, part) for n, part in zip(names, parts, strict=True)]
        return refs, dims

    def _operand(
        self, x: Ref, labels: Labels, dims: Mapping[str, list[Dim]], starts: Mapping[str, int]
    ) -> Operand:
        """Where an operand is read, along the axes that are stored now."""
        view = self._current(x)
        for axis, label in enumerate(labels):
            if label is not None and label not in starts:
                cut = view.cut(axis, cuts_of(dims[label]))
                assert cut is not None  # _aligned saw to it
                view = cut
        places: dict[str, Index] = {}
        for atoms, label in zip(view.axes, labels, strict=True):
            if label is None:
                places.update((atom.name, Index()) for atom in atoms)
                continue
            for atom, dim in zip(atoms, dims[label], strict=True):
                places[atom.name] = Index(((dim.name, 1),), -starts.get(label, 0))
        return Operand(x.tensor, view.replaced(places))

    def graph(self) -> OperatorGraph:
        """The graph, verified.

        Raises
        ------
        CompileError : nothing is an output, a value is never used, or a rule is broken.
        """
        if not any(stored.role == "output" for stored in self._tensors.values()):
            self.fail("the graph has no output", "call output for what it computes")
        tensors = {
            s.name: Tensor(s.name, s.stored, s.dtype, s.role) for s in self._tensors.values()
        }
        ops = tuple(
            replace(op, inputs=tuple(map(self._named, op.inputs)), output=self._named(op.output))
            for op in self._ops
        )
        return OperatorGraph(self.name, tensors, ops, self.attributes)

    def _named(self, operand: Operand) -> Operand:
        return replace(operand, tensor=self._tensors[operand.tensor].name)
