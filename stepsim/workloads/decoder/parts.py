"""The parts of a decoder layer, of which a program may have any that work together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from stepsim.arguments import shown
from stepsim.errors import ArgError, did_you_mean
from stepsim.workloads.models import Model

NORMS, QKV, ROTARY, ATTENTION = "norms", "qkv", "rotary", "attention"
OUTPUT, RESIDUALS, ROUTER, EXPERTS = "output", "residuals", "router", "experts"

_PARTS: Mapping[str, str] = MappingProxyType({
    NORMS: "norms before attention and before the experts",
    QKV: "QKV generation",
    ROTARY: "rotary embedding",
    ATTENTION: "attention",
    OUTPUT: "output projection",
    RESIDUALS: "residual sums",
    ROUTER: "router",
    EXPERTS: "experts or dense network",
})  # fmt: skip
"""Every part, in the order of the layer, and its name in sentences."""

OF_HEADS = (QKV, ATTENTION, OUTPUT)
"""Stages of the heads of a model, over the regions of attention."""

_STAGES = (QKV, ATTENTION, OUTPUT, EXPERTS)
_WITHIN: Mapping[str, tuple[str, ...]] = {
    NORMS: (QKV, EXPERTS), ROTARY: (QKV,), RESIDUALS: (OUTPUT, EXPERTS), ROUTER: (EXPERTS,),
}  # fmt: skip
"""Parts that change a stage, and the stages of which one at least must be built with them."""

_NEVER = (
    "scaling of scores (weights of queries can contain it)",
    "subtraction of the largest score before exp",
    "norms and biases of queries, keys and values",
)
_NO_CHOICE = "choice of experts (the routing is given)"


@dataclass(frozen=True, slots=True)
class Parts:
    """Names of parts of a decoder layer, in the order of the layer.

    Raises
    ------
    ArgError : there is no part of that name, or no part at all.
    """

    metavar: ClassVar[str] = "PART+PART"

    names: tuple[str, ...]

    def __post_init__(self) -> None:
        for name in self.names:
            if name not in _PARTS:
                raise ArgError(
                    f"expected parts of {', '.join(_PARTS)} joined by +, found {shown(name)}"
                    f"{did_you_mean(name, _PARTS).rstrip('.')}"
                )
        if not self.names:
            raise ArgError(
                f"expected one of the parts {', '.join(_PARTS)} at least, found none; leave it out "
                "for the whole layer"
            )
        ordered = tuple(name for name in _PARTS if name in self.names)
        object.__setattr__(self, "names", ordered)

    @classmethod
    def parse(cls, value: object) -> Parts:
        """Parts from their names, a list or a text such as ``qkv+attention``.

        Raises
        ------
        ArgError : as in the class, or the value is neither.
        """
        if isinstance(value, cls):
            return value
        if isinstance(value, str):
            return cls(tuple(value.replace(",", "+").replace(" ", "").split("+")))
        if isinstance(value, Iterable):
            return cls(tuple(value))
        raise ArgError(f"expected parts of {', '.join(_PARTS)} joined by +, found {shown(value)}")

    @classmethod
    def whole(cls, model: Model) -> Parts:
        """All parts that a layer of the model has: without experts there is no router."""
        return cls(tuple(name for name in _PARTS if name != ROUTER or model.experts is not None))

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def __str__(self) -> str:
        return "+".join(self.names)

    def any(self, names: Iterable[str]) -> bool:
        """Whether one of the parts of these names is built."""
        return any(name in self for name in names)

    def check(self, model: Model) -> Iterator[str]:
        """Parts that would have no effect, a sentence each."""
        for name in self._without_stage():
            stages = " or ".join(_WITHIN[name])
            yield f"{name} needs {stages}, found {self}; add one or leave {name} out"
        if ROUTER in self and model.experts is None:
            yield f"expected no router, since {model.name} has no experts; leave it out"

    def _without_stage(self) -> Iterator[str]:
        """Parts that change a stage, of which none is built."""
        return (n for n, stages in _WITHIN.items() if n in self and not self.any(stages))

    def without(self, users: Sequence[str]) -> str:
        """Why what only the parts ``users`` use has no effect; empty if one of them is built.

        Empty also for parts that do not work together, which `check` refuses.
        """
        if self.any(users) or any(self._without_stage()):
            return ""
        *others, last = users
        only = f"{', '.join(others)} and {last}" if others else last
        added = f"one of {only}" if others else only
        return f"has no effect on {self}, only on {only}; leave it out, or add {added} to parts"

    def left_out(self, model: Model) -> str:
        """What a layer of the model has and a program of these parts has not, in words."""
        missing = [_PARTS[name] for name in Parts.whole(model).names if name not in self]
        never = [*_NEVER] if ATTENTION in self or QKV in self else []
        if EXPERTS in self and model.experts is not None:
            never.append(_NO_CHOICE)
        return "; ".join([*missing, *never])
