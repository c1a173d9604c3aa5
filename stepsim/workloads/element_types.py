"""The element types of a layer: weights, activations and the KV cache."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stepsim.dtypes import DType

if TYPE_CHECKING:
    from stepsim.workloads.models import Model


@dataclass(frozen=True, slots=True)
class ElementTypes:
    """Scalar types of the tensors of a layer.

    Products multiply activations by weights or by cached keys and values. A narrower operand is
    converted to the type of the activations, which is also the type of the product.
    """

    weights: DType
    activations: DType
    cache: DType

    @classmethod
    def of(
        cls,
        model: Model,
        weights: DType | None,
        activations: DType | None,
        cache: DType | None = None,
        *,
        heads: Model | None = None,
    ) -> ElementTypes:
        """The given types, with those of the model as defaults.

        Types of weights and cache that are not given are at most as wide as the activations.
        ``heads`` is the model that the cache belongs to.
        """
        wide = activations or model.activation_dtype

        def fitting(own: DType) -> DType:
            return own if own.bits < wide.bits else wide

        return cls(
            weights or fitting(model.weight_dtype),
            wide,
            cache or fitting((heads or model).kv_dtype),
        )

    def check(self) -> Iterator[tuple[str, str]]:
        """Parameters whose types do not fit, with the reason."""
        for what, dtype in (("weight_dtype", self.weights), ("kv_dtype", self.cache)):
            if dtype is not self.activations and dtype.bits >= self.activations.bits:
                yield (
                    what,
                    f"expected the type of the activations, {self.activations}, or a narrower one, "
                    f"found {dtype}; choose another activation_dtype or leave one of them out",
                )
