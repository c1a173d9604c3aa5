"""The types of the streams that a tiled loop nest reads and writes."""

from __future__ import annotations

from collections.abc import Sequence

from stepsim.errors import ITensorError, did_you_mean
from stepsim.itensor.affine import AffineMap, Position, terms_of
from stepsim.itensor.itensor_type import ITensor
from stepsim.typed import typed


@typed
def infer(
    loops: Sequence[tuple[str, int, int]],
    offsets: Sequence[Position],
    element: Sequence[int],
    dtype: str,
    depth: int = 1,
) -> ITensor:
    """The stream of the slices that a tiled loop nest takes from a tensor.

    Trip counts and steps are those of the loops, the element has the sizes of the slice, and the
    map consists of the offsets. A loop that no offset names sends the slices inside it again.

    Parameters
    ----------
    loops
        ``(name, trip count, step)`` of every loop, outermost first.
    offsets
        Offset of the slice along every data dim: a loop's name, a sum such as ``"2*i + k"``, a
        constant, or coefficients by name.
    element
        Sizes of the slice along every data dim.
    dtype, depth
        As in :class:`ITensor`.

    Raises
    ------
    ITensorError
        A name is given twice or is not a loop, or a rule is broken.

    Examples
    --------
    A product ``C[i, j] += A[i, k] * B[k, j]`` of 64x64 in tiles of 16, reduction outermost:

    >>> nest = [("k", 4, 16), ("i", 4, 16), ("j", 4, 16)]
    >>> a = st.itensor.infer(nest, ["i", "k"], (16, 16), "f32")
    """
    names = [name for name, _, _ in loops]
    if len(set(names)) != len(names):
        raise ITensorError(f"loops {', '.join(names)}: every loop needs a name of its own")
    results = []
    for i, position in enumerate(offsets):
        terms, const = terms_of(position)
        for name in terms:
            if name not in names:
                raise ITensorError(
                    f"offset {position!r} along data dim {i}: {name!r} is not a loop of "
                    f"{', '.join(names) or 'none'}{did_you_mean(name, names)}"
                )
        results.append((tuple(terms.get(name, 0) for name in names), const))
    return ITensor(
        tuple(element),
        tuple(trip for _, trip, _ in loops),
        tuple(step for _, _, step in loops),
        AffineMap(tuple(results), len(loops)),
        dtype,
        depth,
    )
