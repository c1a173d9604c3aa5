"""Whether two streams are the same, decided from their loops."""

from __future__ import annotations

import math

from stepsim.itensor.itensor_type import ITensor
from stepsim.itensor.normal_form import NormalForm
from stepsim.typed import typed


@typed
def matches(src: ITensor, dst: ITensor) -> bool:
    """Whether a FIFO alone can join the two: equal sequences of tokens of one scalar type.

    Types may be written differently; the FIFO depth does not matter. No token is enumerated.
    """
    return src.dtype == dst.dtype and src.normal_form() == dst.normal_form()


def first_difference(src: NormalForm, dst: NormalForm) -> int:
    """Number of the first token that differs, for forms that are not equal.

    Equal innermost loops make equal blocks of tokens. The next loops out differ. If they differ in
    stride, the second block starts at different offsets. If they differ only in trip count, the one
    with fewer iterations jumps or ends where the other continues, which in a normal form never
    leads to the same place.
    """
    if src.element != dst.element or src.constants != dst.constants:
        return 0
    equal = 0
    for ours, theirs in zip(reversed(src.loops), reversed(dst.loops), strict=False):
        if ours != theirs:
            break
        equal += 1
    block = math.prod(loop.trip for loop in src.loops[len(src.loops) - equal :])
    left = [form.loops[: len(form.loops) - equal] for form in (src, dst)]
    if all(left) and left[0][-1].stride == left[1][-1].stride:
        return block * min(loops[-1].trip for loops in left)
    return block
