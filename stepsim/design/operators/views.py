"""Views: the map from the axes of a reader to those of the stored tensor.

Reshaping, transposing and slicing move no data. An axis of a view is a product of *atoms*, loops
whose steps along the stored axes are known; splitting an axis splits atoms, merging axes puts atoms
together, and only what no atoms can express needs a copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, pairwise
from math import prod

from stepsim.design.operators.types import Dim, Index

_NUMBERS = count()


def _atom(size: int) -> Dim:
    return Dim(f"a{next(_NUMBERS)}", size)


def substituted_index(index: Index, places: Mapping[str, Index]) -> Index:
    """The position with positions in place of dims; terms of one dim are summed up."""
    sums: dict[str, int] = {}
    offset = index.offset
    for dim, n in index.terms:
        inner = places.get(dim)
        if inner is None:
            sums[dim] = sums.get(dim, 0) + n
            continue
        offset += n * inner.offset
        for name, step in inner.terms:
            sums[name] = sums.get(name, 0) + n * step
    return Index(tuple((dim, n) for dim, n in sums.items() if n), offset)


def mixed_radix(dims: Sequence[Dim]) -> Index:
    """The number whose digits the dims are, the first one outermost."""
    terms = [(dim.name, prod(inner.size for inner in dims[i + 1 :])) for i, dim in enumerate(dims)]
    return Index(tuple(terms))


def cuts_of(atoms: Iterable[Dim]) -> tuple[int, ...]:
    """Products of the inner atoms, the whole axis included: where its number can be cut."""
    found = [1]
    for atom in reversed(tuple(atoms)):
        found.append(found[-1] * atom.size)
    return tuple(found[1:])


@dataclass(frozen=True, slots=True)
class View:
    """Axes as a reader sees them.

    Attributes
    ----------
    axes : the atoms of each axis, outermost first; every axis has one at least.
    access : position along each axis of the stored tensor, of atoms by name.
    """

    axes: tuple[tuple[Dim, ...], ...]
    access: tuple[Index, ...]

    @classmethod
    def plain(cls, shape: Iterable[int]) -> View:
        """A tensor as it is stored."""
        atoms = [_atom(size) for size in shape]
        return cls(tuple((atom,) for atom in atoms), tuple(Index.of(a.name) for a in atoms))

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(prod(atom.size for atom in atoms) for atoms in self.axes)

    @property
    def sizes(self) -> dict[str, int]:
        return {atom.name: atom.size for atoms in self.axes for atom in atoms}

    def is_plain(self, shape: Sequence[int]) -> bool:
        """Whether the view is the stored tensor of a shape, axis by axis."""
        return self.shape == tuple(shape) and all(
            size == 1 or (len(atoms) == 1 and index == Index.of(atoms[0].name))
            for atoms, index, size in zip(self.axes, self.access, shape, strict=True)
        )

    def permuted(self, order: Sequence[int]) -> View:
        """The axes in another order."""
        return replace(self, axes=tuple(self.axes[i] for i in order))

    def replaced(self, places: Mapping[str, Index]) -> tuple[Index, ...]:
        """The access with positions in place of atoms."""
        return tuple(substituted_index(index, places) for index in self.access)

    def simplified(self) -> View:
        """The same view, with atoms merged that move as one."""
        view = self
        for number in range(len(view.axes)):
            atoms = [view.axes[number][0]]
            for inner in view.axes[number][1:]:
                outer = atoms[-1]
                joined = view._joined(outer, inner)
                if joined is None:
                    atoms.append(inner)
                else:
                    atoms[-1], view = joined
            axes = (*view.axes[:number], tuple(atoms), *view.axes[number + 1 :])
            view = replace(view, axes=axes)
        return view

    def _joined(self, outer: Dim, inner: Dim) -> tuple[Dim, View] | None:
        if 1 in (outer.size, inner.size):
            # A loop that runs once does not move.
            kept, gone = (inner, outer) if outer.size == 1 else (outer, inner)
            return kept, replace(self, access=self.replaced({gone.name: Index()}))
        moves = [(i.coefficient(outer.name), i.coefficient(inner.name)) for i in self.access]
        if any(far != near * inner.size for far, near in moves):
            return None
        atom = _atom(outer.size * inner.size)
        places = {outer.name: Index(), inner.name: Index.of(atom.name)}
        return atom, replace(self, access=self.replaced(places))

    def cut(self, axis: int, cuts: Sequence[int]) -> View | None:
        """The view with an axis cut into atoms at the given places; None where an atom ends."""
        wanted = sorted(set(cuts) | {1})
        places: dict[str, Index] = {}
        atoms: list[Dim] = []
        inner = prod(atom.size for atom in self.axes[axis])
        for atom in self.axes[axis]:
            outer, inner = inner, inner // atom.size
            inside = [inner, *(at for at in wanted if inner < at < outer), outer]
            if any(b % a for a, b in pairwise(inside)):
                return None
            parts = [_atom(b // a) for a, b in pairwise(inside)][::-1]
            places[atom.name] = mixed_radix(parts)
            atoms += parts
        axes = (*self.axes[:axis], tuple(atoms), *self.axes[axis + 1 :])
        return View(axes, self.replaced(places))

    def sliced(self, axis: int, start: int, size: int, step: int = 1) -> View | None:
        """Some positions of one axis; None where they cut through the inside of several atoms."""
        atoms = self.axes[axis]
        inner = prod(atom.size for atom in atoms[1:])
        if inner > 1 and (step != 1 or start % inner or size % inner):
            return None
        made = _atom(size // inner)
        place = Index(((made.name, step),), start // inner)
        axes = (*self.axes[:axis], (made, *atoms[1:]), *self.axes[axis + 1 :])
        return View(axes, self.replaced({atoms[0].name: place}))

    def unfolded(self, axis: int, windows: int, width: int, stride: int, dilation: int) -> View:
        """The view with an axis of one atom as windows of it: an axis of them, one of places."""
        (atom,) = self.axes[axis]
        outer, inner = _atom(windows), _atom(width)
        place = Index(((outer.name, stride), (inner.name, dilation)))
        axes = (*self.axes[:axis], (outer,), (inner,), *self.axes[axis + 1 :])
        return View(axes, self.replaced({atom.name: place}))

    def selected(self, axis: int, at: int) -> View:
        """The view without an axis, at one position of it."""
        rest, places = at, {}
        for atom in reversed(self.axes[axis]):
            places[atom.name] = Index((), rest % atom.size)
            rest //= atom.size
        return View((*self.axes[:axis], *self.axes[axis + 1 :]), self.replaced(places))

    def expanded(self, axis: int, size: int) -> View:
        """The view with an axis of size 1 repeated."""
        gone = {atom.name: Index() for atom in self.axes[axis]}
        axes = (*self.axes[:axis], (_atom(size),), *self.axes[axis + 1 :])
        return View(axes, self.replaced(gone))

    def reshaped(self, shape: Sequence[int]) -> View | None:
        """The same elements in the same order under another shape; None where it needs a copy."""
        left = [atom for atoms in self.axes for atom in atoms if atom.size > 1][::-1]
        units = {atom.name: Index() for atoms in self.axes for atom in atoms if atom.size == 1}
        places: dict[str, Index] = dict(units)
        axes: list[tuple[Dim, ...]] = []
        for size in shape:
            rest, atoms = size, []
            while rest > 1:
                atom = left.pop()
                if rest % atom.size == 0:
                    atoms.append(atom)
                    rest //= atom.size
                elif atom.size % rest == 0:
                    outer, inner = _atom(rest), _atom(atom.size // rest)
                    places[atom.name] = mixed_radix((outer, inner))
                    atoms.append(outer)
                    left.append(inner)
                    rest = 1
                else:
                    return None
            axes.append(tuple(atoms) or (_atom(1),))
        access = self.access
        # An atom can be cut several times; each cut replaces what the one before made.
        for name, place in places.items():
            access = tuple(substituted_index(index, {name: place}) for index in access)
        return View(tuple(axes), access)
