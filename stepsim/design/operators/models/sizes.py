"""``ModelSizes``: the sizes of a block, each declared once.

A size is an argument of ``block`` and ``compile``, an option of ``stepsim compile``, and a
parameter of the workload ``compiled``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

from stepsim.arguments import shown
from stepsim.design.operators.building.routed_builder import MOST_EXPERTS
from stepsim.errors import ArgError, CompileError, did_you_mean
from stepsim.workloads import Param, check_fields, fields_of

Phase: TypeAlias = Literal["prefill", "decode"]

_MOST = 1 << 31


def _of_model(what: str, most: int = _MOST) -> Param:
    return Param(what, most=most, otherwise="the model's")


def _of_run(what: str, otherwise: str) -> Param:
    return Param(what, most=_MOST, otherwise=otherwise)


Tokens: TypeAlias = Annotated[int | None, _of_run("tokens of each request", "16, or 1 in decode")]


@dataclass(frozen=True, kw_only=True)
class BlockSizes:
    """Sizes of any block, without its tokens.

    Raises
    ------
    ParameterError : a size has the wrong type or is out of range; all such sizes are listed.
    """

    phase: Annotated[Phase, Param("phase of the model")] = "prefill"
    """``prefill`` starts at an empty cache, ``decode`` reads one."""

    context: Annotated[int | None, _of_run("rows of the KV cache in decode", "64")] = None
    batch: Annotated[int, Param("requests of the batch", most=_MOST)] = 1
    attention_layer: Annotated[
        int | None,
        Param(
            "layer whose attention is built, from 0; of a model whose windows differ",
            least=0, otherwise="0, the first",
        ),
    ] = None  # fmt: skip
    hidden: Annotated[
        int | None,
        Param(
            "width of the activations; the hidden size, for a smaller copy of a model", "columns",
            most=_MOST, otherwise="the model's",
        ),
    ] = None  # fmt: skip
    inner: Annotated[int | None, _of_model("intermediate size of the feed-forward network")] = None
    heads: Annotated[int | None, _of_model("attention heads")] = None
    kv_heads: Annotated[int | None, _of_model("key-value heads")] = None
    head_dim: Annotated[int | None, _of_model("size of a head")] = None

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, kw_only=True)
class ModelSizes(BlockSizes):
    """Sizes of a block: what a run has, and other sizes than the model's, for quick runs."""

    tokens: Tokens = None
    experts: Annotated[
        int | None, _of_model("experts of a mixture-of-experts model", MOST_EXPERTS)
    ] = None
    active: Annotated[int | None, _of_model("experts per token")] = None
    max_rows: Annotated[
        int | None, _of_run("upper bound on the tokens of an expert, which runs enforce", "all")
    ] = None

    @property
    def rows(self) -> int:
        """Tokens of each request in a run of the block."""
        return (1 if self.phase == "decode" else 16) if self.tokens is None else self.tokens

    @property
    def cached(self) -> int:
        """Rows of the cache.

        Raises
        ------
        CompileError : a prefill is given some.
        """
        if self.phase == "decode":
            return 64 if self.context is None else self.context
        if self.context is not None:
            raise CompileError(
                f"block: prefill starts at an empty cache, found context {self.context}; use phase "
                "'decode', which takes any number of tokens"
            )
        return 0

    @property
    def changed(self) -> dict[str, int]:
        """The given sizes of the model, by field of its shape."""
        return {name: size for name in OF_SHAPE if (size := getattr(self, name)) is not None}


OF_SHAPE = ("hidden", "inner", "heads", "kv_heads", "head_dim", "experts", "active")
"""Sizes that a model has of its own."""

OF_EXPERTS = ("experts", "active", "max_rows")
"""Sizes of models with experts alone."""


def sizes_of(where: str, given: dict[str, Any], *, also: tuple[str, ...] = ()) -> ModelSizes:
    """Sizes from arguments by name.

    Parameters
    ----------
    also : other names that ``where`` takes, for the message about an unknown one.

    Raises
    ------
    ArgError : there is no such size, or as `ModelSizes`.
    """
    known = fields_of(ModelSizes)
    for name in given:
        if name not in known:
            near = did_you_mean(name, [*known, *also])
            raise ArgError(
                f"{where}: there is no argument {shown(name)}{near} Sizes of a model that is "
                f"named: {', '.join(known)}"
            )
    return ModelSizes(**given)
