"""The time of a step as that of a like step of an earlier service.

A step with a number and amounts that the earlier service had takes what it took there. Any other
one takes what a step of equal amounts took, the one whose number is nearest, or else what the most
like one took, times the ratio of what both take by a linear function of their amounts, and times
noise. Amounts are requests, new tokens, earlier tokens of requests that decode, and pairs of a new
token and one that it attends to. Every earlier step has a factor, by which all are multiplied that
take their time from it.
"""

from __future__ import annotations

import math
from typing import Final

from stepsim.kernels.build.jit import apart, inlined, kernel

AMOUNTS: Final = 4
"""Of a step."""

# Places of words.
W_STEP: Final = 0  # number of the step at hand. Written
W_OWN: Final = 1  # steps of this engine in the earlier service,
W_OWN_AMOUNTS: Final = 2  # place of their amounts,
W_OWN_TIME: Final = 3  # and of their times in ns, with their factors
W_ALL: Final = 4  # steps of all engines: place of numbers and lengths
W_SORTED: Final = 5  # amounts and number of each, in their order,
W_ORDER: Final = 6  # and which step that is
W_LENGTH: Final = 7  # of each step, in ns, without its factor
W_KINDS: Final = 8  # two kinds of steps, with prompt tokens or without, KIND_WORDS of each
W_FACTOR: Final = 14  # place of the factors of all steps among the reals
W_NOISE: Final = 15  # place of normal numbers, of which each step takes one,
W_NOISES: Final = 16  # and how many there are
W_END: Final = 17

KIND_WORDS: Final = 3
"""Of a kind: how many steps are compared, the place of their numbers, and that of their reals."""

KIND_REALS: Final = 6
"""Of a kind: constant and slopes of the linear function, and the size of the noise. Then come seven
columns of the steps that are compared: logarithms of their amounts plus 1, the sum of squares of
these, the linear function of their amounts, and their lengths in ns."""

MOST_UNLIKE: Final = 16.0
"""How much longer or shorter a step can be than the most like one."""


@apart
def recalled_time(words, reals, requests, tokens, attended, pairs):
    """The time of the next step, of these amounts, in ns."""
    step = words[W_STEP]
    words[W_STEP] = step + 1
    time = known_time(words, reals, step, requests, tokens, attended, pairs)
    if time >= 0:
        return time
    kind = kind_of(words, requests, tokens)
    place = _nearest(
        words, reals, kind, math.log1p(requests), math.log1p(tokens), math.log1p(attended),
        math.log1p(pairs),
    )  # fmt: skip
    return time_like(words, reals, step, kind, place, requests, tokens, attended, pairs)


@kernel
def known_time(words, reals, step, requests, tokens, attended, pairs):
    """The time of a step if the earlier service had one of these amounts; else -1."""
    time = _same_time(words, step, requests, tokens, attended, pairs)
    if time >= 0:
        return time
    found = _equal(words, step, requests, tokens, attended, pairs)
    if found < 0:
        return -1
    return round(words[words[W_LENGTH] + found] * reals[words[W_FACTOR] + found])


@inlined
def _same_time(words, step, requests, tokens, attended, pairs):
    # The time of the step of that number, if it had these amounts; else -1.
    if step >= words[W_OWN]:
        return -1
    at = words[W_OWN_AMOUNTS] + AMOUNTS * step
    if words[at] != requests or words[at + 1] != tokens:
        return -1
    if words[at + 2] != attended or words[at + 3] != pairs:
        return -1
    return words[words[W_OWN_TIME] + step]


@inlined
def _is_before(words, at, requests, tokens, attended, pairs, step):
    # Whether the sorted step at a place comes before these amounts and this number.
    if words[at] != requests:
        return words[at] < requests
    if words[at + 1] != tokens:
        return words[at + 1] < tokens
    if words[at + 2] != attended:
        return words[at + 2] < attended
    if words[at + 3] != pairs:
        return words[at + 3] < pairs
    return words[at + 4] < step


@inlined
def _apart(words, at, requests, tokens, attended, pairs, step):
    # How far the number of the sorted step at a place is; -1 if it has other amounts.
    if words[at] != requests or words[at + 1] != tokens:
        return -1
    if words[at + 2] != attended or words[at + 3] != pairs:
        return -1
    return abs(words[at + 4] - step)


@kernel
def _equal(words, step, requests, tokens, attended, pairs):
    # The step of equal amounts whose number is nearest, the earlier one of two; -1 without any.
    first = words[W_SORTED]
    wide = AMOUNTS + 1
    low = 0
    high = words[W_ALL]
    while low < high:
        middle = (low + high) // 2
        if _is_before(words, first + wide * middle, requests, tokens, attended, pairs, step):
            low = middle + 1
        else:
            high = middle
    below = above = -1
    if low > 0:
        below = _apart(words, first + wide * (low - 1), requests, tokens, attended, pairs, step)
    if low < words[W_ALL]:
        above = _apart(words, first + wide * low, requests, tokens, attended, pairs, step)
    if below < 0 and above < 0:
        return -1
    if above < 0 or 0 <= below <= above:
        return words[words[W_ORDER] + low - 1]
    return words[words[W_ORDER] + low]


@inlined
def kind_of(words, requests, tokens):
    """Place of the kind among which a like step is looked for."""
    own = W_KINDS + (KIND_WORDS if tokens == requests else 0)
    other = W_KINDS + (0 if tokens == requests else KIND_WORDS)
    return own if words[own] > 0 else other


@kernel
def _nearest(words, reals, kind, requests, tokens, attended, pairs):
    # Which of the compared steps is nearest, in logarithms of amounts.
    count = words[kind]
    at = words[kind + 2] + KIND_REALS
    nearest = 0
    least = math.inf
    for k in range(count):
        far = reals[at + 4 * count + k] - 2 * (
            reals[at + k] * requests + reals[at + count + k] * tokens
            + reals[at + 2 * count + k] * attended + reals[at + 3 * count + k] * pairs
        )  # fmt: skip
        if far < least:
            least = far
            nearest = k
    return nearest


@kernel
def time_like(words, reals, step, kind, place, requests, tokens, attended, pairs):
    """The time of a step of these amounts that is most like a compared one, in ns."""
    count = words[kind]
    at = words[kind + 2]
    now = (
        reals[at] + reals[at + 1] * requests + reals[at + 2] * tokens
        + reals[at + 3] * attended + reals[at + 4] * pairs
    )  # fmt: skip
    columns = at + KIND_REALS
    then = reals[columns + 5 * count + place]
    ratio = 1.0
    if then > 0:
        ratio = min(max(now / then, 1 / MOST_UNLIKE), MOST_UNLIKE)
    noise = reals[words[W_NOISE] + step % words[W_NOISES]]
    ratio *= math.exp(reals[at + 5] * noise)
    like = words[words[kind + 1] + place]
    length = reals[columns + 6 * count + place]
    return round(length * ratio * reals[words[W_FACTOR] + like])
