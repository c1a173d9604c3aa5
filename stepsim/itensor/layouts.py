"""Other widths and layouts of a stream: vectorized, packed in memory, widened to a port, folded."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from stepsim.dtypes import dtype_of
from stepsim.errors import ITensorError
from stepsim.itensor.affine import AffineMap, integers
from stepsim.itensor.differences import difference
from stepsim.itensor.itensor_type import ITensor
from stepsim.itensor.loop_text import by
from stepsim.itensor.normal_form import Loop, NormalForm
from stepsim.typed import typed


@dataclass(frozen=True)
class Folded:
    """The saving if a producer writes directly to the buffer that its consumer reads.

    Attributes
    ----------
    itensor
        The order in which both use the buffer.
    fifo_bytes, buffer_bytes
        Bytes of the FIFO, and of the token buffer that was duplicated.
    """

    itensor: ITensor = field(repr=False)
    fifo_bytes: int
    buffer_bytes: int


@typed
def fold(src: ITensor, dst: ITensor) -> Folded:
    """Merge the local buffers at both ends of a FIFO.

    Raises
    ------
    ITensorError
        The two do not write and read in exactly the same order; the message says where they differ.
    """
    found = difference(src, dst)
    if found is not None:
        raise ITensorError(f"fold: only streams with the same tokens fold\n{found}")
    token = src.bytes_of(src.token_cells)
    return Folded(src, src.depth * token, token)


@typed
def vectorize(it: ITensor, vector: Sequence[int]) -> ITensor:
    """Send every token as vectors, row-major: the FIFO becomes narrower, with more tokens.

    Both ends of a FIFO must use the same vector; the ends of a converter may differ.

    Parameters
    ----------
    it
        Stream of tiles.
    vector
        Shape of the vector, which divides the element.

    Raises
    ------
    ITensorError
        The vector has another rank, or does not divide the element.
    """
    sizes = integers("vector", vector)
    if len(sizes) != it.rank or any(
        size < 1 or extent % size for extent, size in zip(it.element, sizes, strict=False)
    ):
        raise ITensorError(
            f"vectorize {it}: a vector of {by(sizes)} does not divide the element "
            f"{by(it.element)}; give a divisor of every extent"
        )
    inside = [
        (i, extent // size, size)
        for i, (extent, size) in enumerate(zip(it.element, sizes, strict=True))
        if extent != size
    ]
    results = tuple(
        ((*coefficients, *(int(dim == i) for dim, _, _ in inside)), const)
        for i, (coefficients, const) in enumerate(it.map.results)
    )
    return ITensor(
        sizes,
        (*it.trips, *(turns for _, turns, _ in inside)),
        (*it.steps, *(step for _, _, step in inside)),
        AffineMap(results, it.map.num_dims + len(inside)),
        it.dtype,
        it.depth,
    )


@typed
def pack(it: ITensor) -> ITensor:
    """The stream over its tensor stored tile by tile, so that every token is one burst.

    A tensor of 64x64 with tokens of 16x16 is stored as 4x4x16x16. The tokens do not change.

    Raises
    ------
    ITensorError
        The tokens are not tiles of one grid: an offset or extent is not a multiple of the element.
    """
    form = it.normal_form()
    for i, size in enumerate(form.element):
        parts = [form.constants[i], it.shape[i], *(loop.stride[i] for loop in form.loops)]
        if any(part % size for part in parts):
            raise ITensorError(
                f"pack {it}: along data dim {i} tokens of {size} are not on a grid of {size} in "
                f"{it.shape[i]}; only a tensor of whole tiles can be stored tile after tile"
            )

    def tiles(values: tuple[int, ...]) -> tuple[int, ...]:
        grid = (value // size for value, size in zip(values, form.element, strict=True))
        return (*grid, *(0 for _ in form.element))

    packed = NormalForm(
        (*(1 for _ in form.element), *form.element),
        tiles(form.constants),
        tuple(Loop(loop.trip, tiles(loop.stride)) for loop in form.loops),
    )
    return ITensor.of_normal_form(packed, it.dtype, it.depth)


@dataclass(frozen=True)
class Widened:
    """A stream at a memory port that moves words.

    Attributes
    ----------
    itensor
        The stream over the tensor as stored: tile by tile, and word by word within a tile, for a
        packed stream whose tiles divide into words.
    port_bits
        Bits of a word.
    vector
        Elements of a tile that form a word, one extent per dim of the tile; None if a word takes
        elements in memory order.
    words_per_token
        Words that a token moves, the last of each run in memory may be partial.
    """

    itensor: ITensor = field(repr=False)
    port_bits: int
    vector: tuple[int, ...] | None
    words_per_token: int

    @property
    def words(self) -> int:
        """Words of one run."""
        return self.words_per_token * self.itensor.tokens

    @property
    def efficiency(self) -> float:
        """Fraction of the moved bits that belong to tokens."""
        return self.itensor.token_bits / (self.words_per_token * self.port_bits)


@typed
def widen(it: ITensor, port_bits: int = 512) -> Widened:
    """Move the tokens of a stream in words of a memory port.

    A token moves ``ceil(run / word)`` words for every run of elements that are contiguous in
    memory, row-major; a token of a packed stream is one run. Runs are assumed to start at a word.

    A packed stream whose tiles divide into words is stored word by word, in the most square
    shape: at 512 bits, 4x4x16x16 of i8 becomes 4x4x2x2 of words of 8x8.

    Raises
    ------
    ITensorError
        A word is not a whole number of elements.
    """
    bits = dtype_of(it.dtype).bits
    if port_bits < 1 or port_bits % bits:
        raise ITensorError(
            f"widen {it}: a port of {port_bits} bits does not hold a whole number of elements of "
            f"{bits} bits"
        )
    wide = port_bits // bits
    vector = _vector(it, wide)
    if vector is not None:
        return Widened(_in_words(it, vector), port_bits, vector, it.token_cells // wide)
    run = 1
    for extent, size in zip(reversed(it.shape), reversed(it.element), strict=True):
        run *= size
        if size != extent:
            break
    return Widened(it, port_bits, None, it.token_cells // run * -(-run // wide))


def _vector(it: ITensor, wide: int) -> tuple[int, ...] | None:
    """The most square shape of a word in the tiles of a packed stream; longer in the last dim."""
    half = it.rank // 2
    grid, tile = it.element[:half], it.element[half:]
    if it.rank % 2 or not half or any(size != 1 for size in grid) or tile != it.shape[half:]:
        return None
    divisors = ([d for d in range(1, size + 1) if size % d == 0] for size in tile)
    shapes = [shape for shape in itertools.product(*divisors) if math.prod(shape) == wide]
    return min(shapes, key=lambda shape: (max(shape), shape), default=None)


def _in_words(it: ITensor, vector: tuple[int, ...]) -> ITensor:
    """Grid x tile of a packed tensor as grid x words x word; a token is still a tile."""
    half = it.rank // 2
    form = it.normal_form()

    def spread(values: tuple[int, ...]) -> tuple[int, ...]:
        return (*values, *(0 for _ in vector))

    words = (size // v for size, v in zip(form.element[half:], vector, strict=True))
    stored = NormalForm(
        (*form.element[:half], *words, *vector),
        spread(form.constants),
        tuple(Loop(loop.trip, spread(loop.stride)) for loop in form.loops),
    )
    return ITensor.of_normal_form(stored, it.dtype, it.depth)
