"""What a kind of unit is: declared beside its step function; everything else follows from it.

A declaration names the channels, integer parameters, state words and private slots of a unit. From
it come the fields that the step function reads, the place of every number in an image, the kind's
code and its branch in the dispatch.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import Any, Literal

import numpy as np

from stepsim.frozen import frozen
from stepsim.kernels.build.generated import written
from stepsim.kernels.build.part import part

_DECLARED: dict[str, UnitKind] = {}


@frozen
class UnitKind:
    """One kind of unit.

    Attributes
    ----------
    name : unique, in lower case.
    inputs, outputs : names of the channels. One may begin with a star: it stands for one or more.
    parameters : names of integers. The last may begin with a star: it stands for a list.
    words : state words and their values before the first step; the step function reads and writes
        them as fields of the unit. Kinds share their storage.
    private : names of private token slots.
    port : kind of memory port, if any.
    selectors : parameters that hold numbers of selectors.
    signed : parameters that may be negative.
    scratch_per_input : private words of scratch space for each input.
    step : the step function, compiled: (unit, state) to a Status.
    """

    name: str
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    words: Mapping[str, int] = field(default_factory=dict)
    private: tuple[str, ...] = ()
    port: Literal["read", "write"] | None = None
    selectors: tuple[str, ...] = ()
    signed: tuple[str, ...] = ()
    scratch_per_input: int = 0
    step: Any = field(default=None, compare=False, repr=False)

    def __call__(self, function: Callable[..., Any]) -> Any:
        """Decorator of the step function: compiles it and enters the kind into the dispatch."""
        if self.name in _DECLARED:
            raise ValueError(f"two kinds of units are named {self.name!r}")
        object.__setattr__(self, "step", part(function, self.name))
        _DECLARED[self.name] = self
        return self.step

    def place(self, parameter: str) -> int:
        """Offset of a parameter, or of the first of a list, behind the unit's first parameter."""
        return [_plain(name) for name in self.parameters].index(parameter)

    def reader(self) -> Any:
        """A kernel (unit, state) that returns the unit's numbers by name.

        A parameter is its value, a channel its number, a private slot its place in the arena. A
        name with a star is the place of its first number among the parameters of the image.
        """
        listed = list(self._fields())
        fields = dict(listed)
        if len(fields) != len(listed):
            raise ValueError(f"unit kind {self.name!r} gives one name to two things")

        def write() -> tuple[str, dict[str, Any]]:
            lines = ["def read(un, state):", "    return Fields("]
            lines += [f"        {source},  # {name}" for name, source in fields.items()]
            return "\n".join([*lines, "    )"]), {"Fields": namedtuple(self.name, list(fields))}

        return written(f"fields of {self.name}", write)

    def _fields(self) -> Iterator[tuple[str, str]]:
        yield from _numbers(self.parameters, "un.par", None)
        yield from _numbers(self.inputs, "un.in0", "un.nin")
        yield from _numbers(self.outputs, "un.out0", "un.nout")
        for i, name in enumerate(self.private):
            yield name, f"un.private + {i}"


def declare(
    name: str,
    *,
    inputs: tuple[str, ...] = (),
    outputs: tuple[str, ...] = (),
    parameters: tuple[str, ...] = (),
    words: tuple[str, ...] | Mapping[str, int] = (),
    private: tuple[str, ...] = (),
    port: Literal["read", "write"] | None = None,
    selectors: tuple[str, ...] = (),
    signed: tuple[str, ...] = (),
    scratch_per_input: int = 0,
) -> tuple[UnitKind, Any]:
    """A kind of unit and the reader of its numbers; words without a value start at 0."""
    starts = dict(words) if isinstance(words, Mapping) else dict.fromkeys(words, 0)
    for word in starts:
        if hasattr(np.record, word):
            raise ValueError(f"unit kind {name!r}: numpy's records use the name {word!r}")
    kind = UnitKind(
        name, inputs, outputs, parameters, starts, private, port, selectors, signed,
        scratch_per_input,
    )  # fmt: skip
    return kind, kind.reader()


def declared() -> Mapping[str, UnitKind]:
    """Every kind that has a step function, by name."""
    return _DECLARED


def _plain(name: str) -> str:
    return name.removeprefix("*")


def _numbers(names: tuple[str, ...], first: str, count: str | None) -> Iterator[tuple[str, str]]:
    """Name and source of every number in a list of the parameter array."""
    stars = [i for i, name in enumerate(names) if name.startswith("*")]
    if len(stars) > 1 or (stars and count is None and stars[0] != len(names) - 1):
        raise ValueError(f"among {', '.join(names)} only one, or the last, can be a list")
    for i, name in enumerate(names):
        if i in stars:
            yield _plain(name), f"{first} + {i}"
        elif stars and i > stars[0]:
            yield name, f"state.parameters[{first} + {count} - {len(names) - i}]"
        else:
            yield name, f"state.parameters[{first} + {i}]"
