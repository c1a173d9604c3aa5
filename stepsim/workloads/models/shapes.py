"""The shapes that workloads are built from: experts and attention of one layer."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from stepsim.arguments import Range, shown, text_of
from stepsim.errors import ArgError

_MOST = 2**40


def whole_fields(what: str, described: Any, *, low: int = -_MOST) -> None:
    """Convert the fields of a dataclass declared as ints to ints; text fields are unchanged.

    Raises
    ------
    ArgError : a field holds another type, or an int below ``low``; the message has its name.
    """
    size = Range(_MOST, "a dimension or a count of a model", low=low)
    for one in fields(described):
        value, where = getattr(described, one.name), f"{what}: {one.name}"
        if one.type == "str":
            text_of(where, value)
        elif one.type == "int" or (one.type == "int | None" and value is not None):
            object.__setattr__(described, one.name, size.checked(where, value))


@dataclass(frozen=True, slots=True)
class MoEShape:
    """A mixture-of-experts layer: ``E`` experts, ``K`` active, model dim ``D``, inner ``F``.

    Attributes
    ----------
    shared_inner : inner dim of the expert that every token visits; 0 if there is no such expert.
    source : where the dimensions are published.
    """

    name: str
    experts: int
    active: int
    model_dim: int
    inner_dim: int
    shared_inner: int = 0
    source: str = ""

    def __post_init__(self) -> None:
        whole_fields(f"MoE shape {shown(self.name)}", self)
        sizes = (self.experts, self.active, self.model_dim, self.inner_dim)
        if min(sizes) < 1 or self.active > self.experts or self.shared_inner < 0:
            raise ArgError(
                f"MoE shape '{self.name}': experts, active, model_dim and inner_dim must be >= 1, "
                f"active <= experts and shared_inner >= 0, found {(*sizes, self.shared_inner)}"
            )


@dataclass(frozen=True, slots=True)
class AttentionShape:
    """Grouped-query attention: ``heads`` query heads share ``kv_heads`` key and value heads.

    Multi-head latent attention is one KV head whose keys are the latent vector and the rotary part,
    and whose values are the latent vector.

    Attributes
    ----------
    head_dim : width of queries and keys.
    value_dim : width of values; None if equal to that of the keys.
    source : where the dimensions are published.
    """

    name: str
    model_dim: int
    heads: int
    kv_heads: int
    head_dim: int
    value_dim: int | None = None
    source: str = ""

    def __post_init__(self) -> None:
        whole_fields(f"attention shape {shown(self.name)}", self)
        sizes = (self.model_dim, self.heads, self.kv_heads, self.head_dim, self.value_width)
        if min(sizes) < 1 or self.heads % self.kv_heads:
            raise ArgError(
                f"attention shape '{self.name}': model_dim, heads, kv_heads, head_dim and "
                f"value_dim must be >= 1 and kv_heads must divide heads, found {sizes}"
            )

    @property
    def queries_per_kv_head(self) -> int:
        return self.heads // self.kv_heads

    @property
    def value_width(self) -> int:
        return self.head_dim if self.value_dim is None else self.value_dim
