"""The experts of the tokens of a step: drawn for each token and layer, or from a recording.

A draw depends on the seed, the number of the request, the layer and the position of the token in
its request, and on nothing else: splitmix64 of these four is the seed of a sequence of its own.
Experts are drawn by the alias method; one that the token has already is drawn again.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from stepsim.kernels.build.by_reference import by_reference
from stepsim.kernels.build.entry_point import cached_entry
from stepsim.kernels.build.jit import apart, inlined

SEED, EXPERTS, CHOSEN, LAYERS, FIRST, LAST, RECORDED, WRITES, ENTRIES = range(9)
"""Places of the options: experts of a layer, those of a token; layers of the model, the first one
that is looked up, and the one behind the last; 1 for a recording; 1 to write the ids; entries of
the step."""

_OPTIONS: Final = 9
_MOST_DRAWS: Final = 256
"""Draws of one expert; then the next one that the token has not is taken."""


class ExpertDraws(NamedTuple):
    """Tokens of a step, and how their experts are found.

    Attributes
    ----------
    options : see above.
    number : of the request of each entry. [entries]
    before, new : position of its first token, and its tokens. [entries]
    begin : first row of each recorded request, and the end of the last. [requests + 1]
    recorded : expert ids of all rows, layers and choices, in this order.
    threshold : of 2**32, how often a drawn expert is taken. [layers x experts]
    alias : the expert that is taken otherwise. [layers x experts]
    counts : tokens of each expert. [layers x experts] Written.
    ids : experts of all layers looked up, tokens and choices, in this order. Written.
    """

    options: Any
    number: Any
    before: Any
    new: Any
    begin: Any
    recorded: Any
    threshold: Any
    alias: Any
    counts: Any
    ids: Any


_LAYOUT = ExpertDraws(*[np.dtype(np.int64)] * len(ExpertDraws._fields))._replace(
    recorded=np.dtype(np.int32), ids=np.dtype(np.int32)
)


@inlined
def _mixed(z):
    """The output function of splitmix64."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@inlined
def _after(state, place):
    """The output of the sequence from ``state`` at a place from 0."""
    return _mixed(state + (np.uint64(place) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15))


@inlined
def _taken(draws, chosen, at, expert):
    """Whether a token has an expert already, among those from ``at`` on."""
    for i in range(chosen):
        if draws.ids[at + i] == expert:
            return True
    return False


@inlined
def _draw(draws, state, layer, at):
    """Draw the experts of a token to the ids from ``at`` on."""
    experts, row = draws.options[EXPERTS], layer * draws.options[EXPERTS]
    place = 0
    for chosen in range(draws.options[CHOSEN]):
        expert, tries = np.int64(0), 0
        while True:
            drawn = _after(state, place)
            place += 1
            tries += 1
            expert = np.int64(((drawn >> np.uint64(32)) * np.uint64(experts)) >> np.uint64(32))
            if np.int64(drawn & np.uint64(0xFFFFFFFF)) >= draws.threshold[row + expert]:
                expert = draws.alias[row + expert]
            if not _taken(draws, chosen, at, expert):
                break
            if tries >= _MOST_DRAWS:
                while _taken(draws, chosen, at, expert):
                    expert = expert + 1 if expert + 1 < experts else np.int64(0)
                break
        draws.ids[at + chosen] = expert


@apart
def _look_up(draws):
    options = draws.options
    k, experts, layers = options[CHOSEN], options[EXPERTS], options[LAYERS]
    for i in range(layers * experts):
        draws.counts[i] = 0
    at = 0
    for layer in range(options[FIRST], options[LAST]):
        of_layer = _after(np.uint64(options[SEED]), layer)
        for entry in range(options[ENTRIES]):
            number = draws.number[entry]
            of_request = _after(of_layer, number)
            for t in range(draws.before[entry], draws.before[entry] + draws.new[entry]):
                if options[RECORDED] != 0:
                    row = draws.begin[number] + t
                    if row >= draws.begin[number + 1]:
                        return -1 - entry
                    source = (row * layers + layer) * k
                    for i in range(k):
                        draws.ids[at + i] = draws.recorded[source + i]
                else:
                    _draw(draws, _after(of_request, t), layer, at)
                for i in range(k):
                    draws.counts[layer * experts + draws.ids[at + i]] += 1
                if options[WRITES] != 0:
                    at += k
    return 0


def _entry(draws):
    """Find all experts; 0, or -1 less the entry whose recording is too short."""
    return _look_up(by_reference(draws))


look_up_experts: Any = cached_entry(_entry, _LAYOUT, what="routing of the tokens of a step")


def new_draws(
    *, experts: int, chosen: int, layers: int, seed: int = 0, begin: Any = None,
    recorded: Any = None, threshold: Any = None, alias: Any = None,
) -> ExpertDraws:  # fmt: skip
    """Draws without tokens; `with_tokens` gives them some."""
    options = np.zeros(_OPTIONS, np.int64)
    options[:RECORDED] = seed, experts, chosen, layers, 0, layers
    options[RECORDED] = recorded is not None
    nothing = np.zeros(0, np.int64)
    return ExpertDraws(
        options, nothing, nothing, nothing,
        nothing if begin is None else begin,
        np.zeros(0, np.int32) if recorded is None else recorded,
        nothing if threshold is None else threshold,
        nothing if alias is None else alias,
        np.zeros(layers * experts, np.int64), np.zeros(chosen, np.int32),
    )  # fmt: skip


def with_tokens(
    draws: ExpertDraws, number: Any, before: Any, new: Any, layers: tuple[int, int] | None
) -> ExpertDraws:
    """The same for the tokens of a step; with ``layers`` the ids of this range are written too."""
    options = draws.options.copy()
    ids = draws.ids
    options[WRITES], options[ENTRIES] = layers is not None, len(number)
    if layers is not None:
        options[FIRST], options[LAST] = layers
        count = (layers[1] - layers[0]) * int(new.sum()) * int(options[CHOSEN])
        ids = np.zeros(max(count, 1), np.int32)
    return draws._replace(options=options, number=number, before=before, new=new, ids=ids)
