"""Where two streams differ, and what would make them match."""

from __future__ import annotations

from dataclasses import dataclass

from stepsim.errors import ITensorError
from stepsim.itensor.converters import converter
from stepsim.itensor.itensor_type import ITensor
from stepsim.itensor.loop_text import by
from stepsim.itensor.matching import first_difference, matches
from stepsim.itensor.reshapes import reassociate
from stepsim.typed import typed


@dataclass(frozen=True)
class Difference:
    """The first difference of two streams; ``str`` describes it and how to make them match.

    Attributes
    ----------
    src, dst
        The streams.
    token
        Number of the first token that differs: in offset, in shape, or because one stream has
            ended.
    src_offset, dst_offset
        Offset of that token in either stream; None if the stream has ended.
    """

    src: ITensor
    dst: ITensor
    token: int
    src_offset: tuple[int, ...] | None
    dst_offset: tuple[int, ...] | None

    def __str__(self) -> str:
        sides = (
            ("source", self.src, self.src_offset),
            ("target", self.dst, self.dst_offset),
        )
        lines = [f"streams differ at token {self.token}:"]
        for name, it, offset in sides:
            lines.append(f"  {name} {it} {_sent(it, offset)}")
        lines += [f"  to match: {remedy}" for remedy in self.remedies]
        return "\n".join(lines)

    @property
    def remedies(self) -> tuple[str, ...]:
        """Ways to make the streams match, the cheapest first."""
        src, dst = self.src, self.dst
        if src.dtype != dst.dtype:
            return (f"compute {dst.dtype} from {src.dtype} in a kernel; no FIFO casts",)
        if src.shape != dst.shape:
            return (_reshape(src, dst),)
        found = []
        if src.element != dst.element:
            found.append(
                f"tile both kernels alike, with element {by(dst.element)} or {by(src.element)}"
            )
        if src.sends_again:
            found.append(
                "let the source send every token once: keep partial results in the kernel and send "
                "the last pass alone"
            )
        elif sorted(src.normal_form().loops) == sorted(dst.normal_form().loops):
            found.append("permute the loops of one kernel to the order of the other")
        elif src.element == dst.element and _once(src) == _once(dst):
            found.append(
                "let the target read every token once: move its revisit loops innermost and keep "
                "the token in the kernel"
            )
        try:
            found.append(f"put a converter between them: {converter(src, dst)}")
        except ITensorError as error:
            found.append(f"no converter joins them: {error}")
        return tuple(found)


@typed
def difference(src: ITensor, dst: ITensor) -> Difference | None:
    """The first token in which two streams differ, found without enumeration; None if they match.

    Streams of different scalar types differ from token 0 on.
    """
    if matches(src, dst):
        return None
    token = 0
    if src.dtype == dst.dtype:
        token = first_difference(src.normal_form(), dst.normal_form())
    return Difference(src, dst, token, *(_offset(it, token) for it in (src, dst)))


@typed
def cast(it: ITensor, to: ITensor) -> ITensor:
    """The stream as another type with the same tokens; no data moves.

    Raises
    ------
    ITensorError
        The tokens differ; the message says where, and how to make them match.
    """
    found = difference(it, to)
    if found is not None:
        raise ITensorError(f"cast: {found}")
    return to


def _offset(it: ITensor, token: int) -> tuple[int, ...] | None:
    return it.offset_of(token) if token < it.tokens else None


def _once(it: ITensor) -> list[object]:
    """The loops with an offset, in order."""
    return [loop for loop in it.normal_form().loops if not loop.is_revisit]


def _sent(it: ITensor, offset: tuple[int, ...] | None) -> str:
    if offset is None:
        return f"is over after {it.tokens} tokens"
    at = ", ".join(str(o) for o in offset)
    return f"sends the {by(it.element) or 'scalar'} at ({at})"


def _reshape(src: ITensor, dst: ITensor) -> str:
    shapes = f"{by(src.shape)} and {by(dst.shape)}"
    if src.cells != dst.cells:
        return f"the tensors are not the same: {shapes}; pad or slice one of them in a kernel"
    try:
        seen = reassociate(src, dst.shape)
    except ITensorError as error:
        return f"reshape one of {shapes}, which is no view here: {error}"
    if matches(seen, dst):
        return f"view the source by reassociate(src, {dst.shape}); its tokens are those of dst"
    return f"view the source by reassociate(src, {dst.shape}), a tensor of the same shape, first"
