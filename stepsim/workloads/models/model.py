"""A model: the dimensions of its layers and the element types of its tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar

from stepsim.arguments import shown
from stepsim.dtypes import DType
from stepsim.errors import ArgError
from stepsim.typed import typed
from stepsim.workloads.models.layer import LLAMA, Layer
from stepsim.workloads.models.shapes import AttentionShape, MoEShape, whole_fields
from stepsim.workloads.models.windows import Windows


@dataclass(frozen=True, slots=True)
class Experts:
    """The mixture of experts of a layer.

    Attributes
    ----------
    count : routed experts.
    active : routed experts of each token.
    inner_dim : inner dimension of each.
    shared_inner : inner dimension of all shared experts together, which every token visits.
    """

    count: int
    active: int
    inner_dim: int
    shared_inner: int = 0

    def __post_init__(self) -> None:
        whole_fields("experts", self)


@dataclass(frozen=True, slots=True)
class GroupedHeads:
    """Grouped-query attention; one KV head for each query head is multi-head attention.

    Attributes
    ----------
    head_dim : width of queries and keys.
    value_dim : width of values; None if equal to that of the keys.
    """

    heads: int
    kv_heads: int
    head_dim: int
    value_dim: int | None = None

    def __post_init__(self) -> None:
        whole_fields("heads", self)


@dataclass(frozen=True, slots=True)
class LatentHeads:
    """Multi-head latent attention, with DeepSeek's names of the dimensions.

    In decoding, all heads share one key, the latent vector and the rotary part, and one value, the
    latent vector.
    """

    heads: int
    kv_lora_rank: int
    qk_nope_head_dim: int
    qk_rope_head_dim: int
    v_head_dim: int
    q_lora_rank: int | None = None

    def __post_init__(self) -> None:
        whole_fields("latent heads", self, low=0)


@dataclass(frozen=True, slots=True)
class Dense:
    """The feed-forward network of layers without experts.

    Attributes
    ----------
    layers : how many layers have one; None if not stated.
    """

    inner_dim: int
    layers: int | None = None

    def __post_init__(self) -> None:
        whole_fields("dense network", self, low=0)


_PARTS: dict[str, tuple[type, ...]] = {
    "experts": (Experts,),
    "heads": (GroupedHeads, LatentHeads),
    "dense": (Dense,),
    "windows": (Windows,),
    "layer": (Layer,),
}


@dataclass(frozen=True, slots=True)
class Model:
    """The dimensions and element types of a model.

    Attributes
    ----------
    model_dim : width of the activations between layers, also called hidden size.
    layers, vocabulary : None if not stated.
    weight_dtype : element type of the weights of its large matrices.
    activation_dtype : that of activations.
    kv_dtype : that of the KV cache.
    windows : the layers that attend to the latest tokens alone; None if there are none.
    layer : what its layers compute beside their products, which only designs have; None if that
        is not known.
    source : the file it was read from, or where its dimensions are published.
    absent : the reason for each missing part, by name.
    unmodeled : pairs of a part of a layer and a sentence on what of it is not modeled.

    Raises
    ------
    ArgError : a field has a wrong type or is out of range.
    """

    metavar: ClassVar[str] = "MODEL"
    reader: ClassVar[Callable[[object], Model]]
    """Reads a model in any of its forms; it is set by the module that reads them."""

    name: str
    model_dim: int
    experts: Experts | None = None
    heads: GroupedHeads | LatentHeads | None = None
    dense: Dense | None = None
    layers: int | None = None
    vocabulary: int | None = None
    weight_dtype: DType = DType.bf16
    activation_dtype: DType = DType.bf16
    kv_dtype: DType = DType.bf16
    windows: Windows | None = None
    layer: Layer | None = field(default=None, compare=False, repr=False)
    source: str = field(default="", compare=False, repr=False)
    absent: tuple[tuple[str, str], ...] = field(default=(), compare=False, repr=False)
    unmodeled: tuple[tuple[str, str], ...] = field(default=(), compare=False, repr=False)

    def __post_init__(self) -> None:
        where = f"model {shown(self.name)}"
        whole_fields(where, self, low=1)
        for name, kinds in _PARTS.items():
            part = getattr(self, name)
            if part is not None and not isinstance(part, kinds):
                known = " or ".join(kind.__name__ for kind in kinds)
                raise ArgError(f"{where}: {name} must be {known} or None, found {shown(part)}")
        for name in ("weight_dtype", "activation_dtype", "kv_dtype"):
            object.__setattr__(self, name, DType.parse(getattr(self, name)))
        for name, what in (("absent", "why it is missing"), ("unmodeled", "a sentence")):
            given = getattr(self, name)
            if not _are_pairs(given):
                raise ArgError(
                    f"{where}: {name} must be pairs of a part and {what}, found {shown(given)}"
                )
        windowed = None if self.windows is None else self.windows.layers
        if windowed and self.layers is not None and windowed[-1] >= self.layers:
            raise ArgError(
                f"{where}: windows must be of its {self.layers} layers from 0, found layer "
                f"{windowed[-1]}"
            )
        dense = None if self.dense is None else self.dense.layers
        if dense is not None and self.layers is not None and dense > self.layers:
            raise ArgError(
                f"{where}: dense: layers must be at most its {self.layers} layers, found {dense}"
            )
        if self.windows is not None and windowed and len(windowed) == self.layers:
            object.__setattr__(self, "windows", Windows(self.windows.tokens))
        if self.experts is not None:
            _ = self.moe
        if self.heads is not None:
            _ = self.attention

    @classmethod
    def parse(cls, value: object) -> Model:
        """A model from itself, a shape, its dimensions by key, or a text for :func:`read_model`.

        Raises
        ------
        ArgError
            There is no such model, or its description is wrong.
        """
        return value if isinstance(value, cls) else cls.reader(value)

    @classmethod
    def of(cls, *shapes: MoEShape | AttentionShape, **more: Any) -> Model:
        """A model of one shape, or of shapes of experts and attention with the same width."""
        parts: dict[str, Any] = {}
        if not shapes:
            raise ArgError("Model.of: expected a shape at least, found none")
        for shape in shapes:
            if not isinstance(shape, (MoEShape, AttentionShape)):
                raise ArgError(
                    f"Model.of: expected a MoEShape or an AttentionShape, found {shown(shape)}"
                )
            if isinstance(shape, MoEShape):
                parts["experts"] = Experts(
                    shape.experts, shape.active, shape.inner_dim, shape.shared_inner
                )
            else:
                parts["heads"] = GroupedHeads(
                    shape.heads, shape.kv_heads, shape.head_dim, shape.value_dim
                )
        return cls(shapes[0].name, shapes[0].model_dim, **parts, source=shapes[0].source, **more)

    def __str__(self) -> str:
        return self.name

    def to_dict(self) -> dict[str, Any]:
        """Dimensions and element types as plain values; missing parts are None."""
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.compare}
        if self.windows is None:  # as before models had windows, so that sweeps can go on
            del own["windows"]
        if self.layer not in (None, LLAMA) and self.where != self.name:  # a name says it
            own["layer"] = self.layer
        return {name: _plain(value) for name, value in own.items()}

    def description(self) -> dict[str, Any]:
        """Its dimensions by key, as in a YAML file; :meth:`parse` makes it again of them."""
        found: dict[str, Any] = {
            "name": self.name, "model_dim": self.model_dim, "layers": self.layers,
            "vocabulary": self.vocabulary, "experts": _given(self.experts),
            "attention": _given(self.heads), "dense": _given(self.dense),
            "layer": None if self.layer in (None, LLAMA) else _given(self.layer),
        }  # fmt: skip
        if self.windows is not None and found["attention"] is not None:
            layers = self.windows.layers
            windowed = {} if layers is None else {"windowed_layers": list(layers)}
            found["attention"] |= {"window": self.windows.tokens, **windowed}
        found = {name: value for name, value in found.items() if value is not None}
        types = ("weight_dtype", "activation_dtype", "kv_dtype")
        return found | {name: str(getattr(self, name)) for name in types}

    @property
    def moe(self) -> MoEShape:
        """Its experts; ArgError if it has no experts."""
        if self.experts is None:
            raise self._lacks("experts")
        return MoEShape(
            self.name,
            experts=self.experts.count,
            active=self.experts.active,
            model_dim=self.model_dim,
            inner_dim=self.experts.inner_dim,
            shared_inner=self.experts.shared_inner,
            source=self.source,
        )

    @property
    def feed_forward(self) -> MoEShape:
        """Its experts; for a model without any, its dense network as one expert for all tokens.

        Raises
        ------
        ArgError
            Neither is known.
        """
        if self.experts is not None or self.dense is None:
            return self.moe
        return MoEShape(
            self.name, experts=1, active=1, model_dim=self.model_dim,
            inner_dim=self.dense.inner_dim, source=self.source,
        )  # fmt: skip

    @property
    def attention(self) -> AttentionShape:
        """Its heads in decoding; ArgError if they are not known."""
        heads = self.heads
        if heads is None:
            raise self._lacks("attention")
        if isinstance(heads, LatentHeads):
            kv_heads, value_dim = 1, heads.kv_lora_rank
            head_dim: int = heads.kv_lora_rank + heads.qk_rope_head_dim
            return AttentionShape(
                self.name, self.model_dim, heads.heads, kv_heads, head_dim, value_dim, self.source
            )
        return AttentionShape(
            self.name, self.model_dim, heads.heads, heads.kv_heads, heads.head_dim,
            heads.value_dim, self.source,
        )  # fmt: skip

    @typed
    def window(self, layer: int | None = None) -> int | None:
        """Cached tokens that a request attends to at most; None if to all.

        Layers may differ; without one it is one that attends to all tokens, if there is any.

        Raises
        ------
        ArgError
            The model has no such layer.
        """
        if layer is not None and not 0 <= layer < (self.layers or layer + 1):
            raise ArgError(
                f"model {self.name}: expected a layer from 0 to {(self.layers or 1) - 1}, found "
                f"{layer}"
            )
        return None if self.windows is None else self.windows.of(layer)

    def notes(self, *parts: str) -> list[str]:
        """What is not modeled of these parts, a sentence each."""
        return [f"{self.name}: {text}" for part, text in self.unmodeled if part in parts]

    @property
    def expert_layers(self) -> int | None:
        """Layers with experts; None when the number of layers is not known."""
        if self.experts is None:
            return 0
        dense = 0 if self.dense is None else self.dense.layers
        return None if self.layers is None or dense is None else self.layers - dense

    @property
    def where(self) -> str:
        """The file that describes it, else its name."""
        return self.source if self.source.endswith((".json", ".yaml", ".yml")) else self.name

    @typed
    def why_without(self, part: str) -> str:
        """Why it lacks a part, as a clause."""
        return dict(reversed(self.absent)).get(part, f"it is described without {part}")

    def _lacks(self, part: str) -> ArgError:
        return ArgError(f"model {self.where} has no {part}: {self.why_without(part)}")


def _are_pairs(value: Any) -> bool:
    return isinstance(value, tuple) and all(
        isinstance(one, tuple) and len(one) == 2 and all(isinstance(text, str) for text in one)
        for one in value
    )


def _given(part: Any) -> dict[str, Any] | None:
    """The values of a part that are stated; None without one."""
    if part is None:
        return None
    return {name: value for name, value in asdict(part).items() if value is not None}


def _plain(value: Any) -> Any:
    if isinstance(value, DType):
        return str(value)
    return (
        asdict(value)
        if isinstance(value, (Experts, GroupedHeads, LatentHeads, Dense, Windows, Layer))
        else value
    )
