"""Decoder blocks of models as operator graphs, and whole models of repeated blocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from stepsim.arguments import is_whole, shown
from stepsim.design.operators.building.builder import GraphBuilder
from stepsim.design.operators.building.recorder import Ref
from stepsim.design.operators.graph import OperatorGraph
from stepsim.design.operators.models.shapes import ModelShape, model_shape
from stepsim.design.operators.models.sizes import OF_EXPERTS, ModelSizes, Phase, sizes_of
from stepsim.dtypes import DType
from stepsim.errors import CompileError
from stepsim.graph import without_source_lines
from stepsim.typed import typed
from stepsim.workloads.models import Model


@typed
def block(
    model: str | Model | ModelShape,
    phase: Phase | None = None,
    tokens: int | None = None,
    context: int | None = None,
    *,
    dtype: DType | str = "i8",
    weight_dtype: DType | str = "i4",
    **sizes: Any,
) -> OperatorGraph:
    """One decoder block: norms, attention with its cache, and the feed-forward network.

    Inputs are ``x`` and, with rotary embedding, ``cos`` and ``sin`` [tokens, head_dim / 2].
    Outputs are ``y`` and the rows ``k_new`` and ``v_new`` [tokens, kv_heads*head_dim] for the
    cache; in decoding, states ``k_cache`` and ``v_cache`` hold ``context`` rows before them. With a
    batch all but ``cos`` and ``sin`` have an axis for it in front. Weights are (out, in), queries,
    keys and values have one each, and embeddings and their scaling are outside of the block.

    Parameters
    ----------
    model : a name of :data:`MODELS`, a file with a model, a model, or a shape.
    phase, tokens, context, sizes : the fields of :class:`ModelSizes`.
    dtype, weight_dtype : of activations and of matrices of weights.

    Raises
    ------
    CompileError : no block can be built of the model, or sizes do not fit together.
    ArgError : the model is unknown, or a size is unknown or out of range.
    """
    shape, made = _sized("block", model, phase, tokens, context, sizes)
    if shape.experts:
        raise CompileError(f"block: {shape.name} has experts; use moe_block")
    return _built(shape, made, dtype, weight_dtype)


@typed
def moe_block(
    model: str | Model | ModelShape = "qwen3-30b-a3b",
    phase: Phase | None = None,
    tokens: int | None = None,
    context: int | None = None,
    *,
    dtype: DType | str = "i8",
    weight_dtype: DType | str = "i4",
    **sizes: Any,
) -> OperatorGraph:
    """One decoder block with a mixture of experts: norms, attention, router, experts.

    As :func:`block`; besides, ``routing`` ``[batch * tokens, active]`` is an input of which experts
    each token goes to, which runs are bound to. Factors of the results are the softmax of the
    router at those experts, divided by their sum.

    Parameters
    ----------
    model : a name of :data:`MOE_MODELS`, or as of :func:`block`, with experts.

    Raises
    ------
    CompileError : the model has no experts, or as :func:`block`.
    ArgError : as :func:`block`.
    """
    shape, made = _sized("moe_block", model, phase, tokens, context, sizes)
    if not shape.experts:
        raise CompileError(f"moe_block: {shape.name} has no experts; use block")
    return _built(shape, made, dtype, weight_dtype)


def _sized(
    where: str,
    model: str | Model | ModelShape,
    phase: Phase | None,
    tokens: int | None,
    context: int | None,
    sizes: Mapping[str, Any],
) -> tuple[ModelShape, ModelSizes]:
    """The shape of a model with other sizes, and the sizes of its run."""
    first = {"phase": phase, "tokens": tokens, "context": context}
    given = {name: value for name, value in first.items() if value is not None}
    made = sizes_of(where, {**given, **sizes})
    shape = model_shape(model, made.attention_layer)
    routed = [name for name in OF_EXPERTS if getattr(made, name) is not None]
    if routed and not shape.experts:
        listed = ", ".join(routed)
        raise CompileError(f"{where}: {listed}: {shape.name} has no experts; leave {listed} out")
    return (model_shape(replace(shape, **made.changed)) if made.changed else shape), made  # type: ignore[arg-type]


def graph_of_sizes(
    model: str | Model | ModelShape, sizes: Mapping[str, Any], **types: Any
) -> OperatorGraph:
    """:func:`block` or :func:`moe_block`, as the model has experts or not."""
    make = moe_block if model_shape(model, sizes.get("attention_layer")).experts else block
    return make(model, **types, **sizes)


def _built(
    shape: ModelShape, sizes: ModelSizes, dtype: DType | str, weight_dtype: DType | str
) -> OperatorGraph:
    rows, cached, batch = sizes.rows, sizes.cached, sizes.batch
    attributes = {
        "model": shape.name, "phase": sizes.phase, "batch": batch, "tokens": rows,
        "context": cached, "layers": shape.layers, "heads": shape.heads,
        "kv_heads": shape.kv_heads,
    }  # fmt: skip
    if shape.experts:
        attributes |= {"experts": shape.experts, "active": shape.active}
    b = GraphBuilder(f"{shape.name} block", dtype, weight_dtype, **attributes)
    lead = () if batch == 1 else (batch,)
    with without_source_lines():
        return _Block(b, shape, lead, rows, cached, sizes.max_rows).built()


@dataclass(frozen=True)
class _Block:
    b: GraphBuilder
    shape: ModelShape
    lead: tuple[int, ...]
    tokens: int
    context: int
    max_rows: int | None

    def built(self) -> OperatorGraph:
        b, shape = self.b, self.shape
        x = b.input("x", (*self.lead, self.tokens, shape.hidden))
        with b.at("attn"):
            attended = self.attention(self.norm("attn_norm", x))
        if shape.layer.post_norms:
            attended = self.norm("post_attn_norm", attended)
        with b.at("attn_residual"):
            x = b.add(x, attended)
        with b.at("mlp"):
            made = self.network(self.norm("mlp_norm", x))
        if shape.layer.post_norms:
            made = self.norm("post_mlp_norm", made)
        with b.at("mlp_residual"):
            b.output(b.add(x, made), "y")
        return b.graph()

    def norm(self, name: str, x: Ref) -> Ref:
        """A norm over the last axis, with weights of its own."""
        b, shape = self.b, self.shape
        w = b.weight(f"{name}.weight", x.shape[-1:])
        with b.at(name):
            if shape.layer.norm == "layer":
                return b.layer_norm(x, w, b.weight(f"{name}.bias", x.shape[-1:]), shape.layer.eps)
            return b.rms_norm(x, w, shape.layer.eps, unit_offset=shape.layer.norm == "rms+1")

    def linear(self, name: str, x: Ref, width: int, bias: bool) -> Ref:
        b = self.b
        w = b.weight(f"{name}.weight", (width, x.shape[-1]))
        with b.at(name):
            return b.linear(x, w, b.weight(f"{name}.bias", (width,)) if bias else None)

    def attention(self, x: Ref) -> Ref:
        b, shape = self.b, self.shape
        biased = shape.layer.biases != "none"
        width = {"q": shape.heads, "k": shape.kv_heads, "v": shape.kv_heads}
        made = {
            name: self.linear(name, x, heads * shape.head_dim, biased)
            for name, heads in width.items()
        }
        q, k, v = (self.split(made[name], width[name]) for name in "qkv")
        if shape.layer.qk_norm:
            q, k = self.norm("q_norm", q), self.norm("k_norm", k)
        if shape.layer.rotary:
            angles = (self.tokens, shape.head_dim // 2)
            cos, sin = (b.unsqueeze(b.input(name, angles), 1) for name in ("cos", "sin"))
            q, k = b.rotary(q, cos, sin), b.rotary(k, cos, sin)
        k, v = self.cached("k", k), self.cached("v", v)
        q, k, v = (b.transpose(part, -3, -2) for part in (q, k, v))
        total = self.context + self.tokens
        window = shape.window if shape.window is not None and shape.window < total else None
        # A single token sees all that a window does not hide.
        causal = self.tokens > 1 or window is not None
        masked = {"causal": True, "window": window} if causal else {}
        out = b.sdpa(q, k, v, enable_gqa=True, **masked)  # type: ignore[arg-type]
        out = b.transpose(out, -3, -2)
        merged = b.reshape(out, (*out.shape[:-2], shape.heads * shape.head_dim))
        return self.linear("o", merged, shape.hidden, shape.layer.biases in ("attention", "all"))

    def split(self, x: Ref, heads: int) -> Ref:
        return self.b.reshape(x, (*x.shape[:-1], heads, self.shape.head_dim))

    def cached(self, name: str, new: Ref) -> Ref:
        """All keys or values of the request; the new ones are an output for the cache."""
        b, width = self.b, self.shape.kv_heads * self.shape.head_dim
        new = b.output(b.reshape(new, (*self.lead, self.tokens, width)), f"{name}_new")
        if self.context:
            cache = b.state(f"{name}_cache", (*self.lead, self.context, width))
            with b.at(name):
                new = b.cache_append(cache, new)
        return self.split(new, self.shape.kv_heads)

    def network(self, x: Ref) -> Ref:
        b, shape = self.b, self.shape
        if shape.experts:
            return self.mixture(x)
        biased = shape.layer.biases == "all"
        up = self.linear("up", x, shape.inner, biased)
        if shape.layer.gated:
            gate = self.linear("gate", x, shape.inner, biased)
            up = b.mul(b.apply(shape.layer.activation, gate), up)
        else:
            up = b.apply(shape.layer.activation, up)
        return self.linear("down", up, shape.hidden, biased)

    def mixture(self, x: Ref) -> Ref:
        """The feed-forward networks of experts, of rows of all requests together."""
        b, shape = self.b, self.shape
        rows = b.reshape(x, (-1, shape.hidden))
        routing = b.routing("routing", rows.shape[0], shape.active)
        sides = {"gate": (shape.inner, shape.hidden), "up": (shape.inner, shape.hidden),
                 "down": (shape.hidden, shape.inner)}  # fmt: skip
        weights = {
            name: [b.weight(f"experts.{e}.{name}.weight", side) for e in range(shape.experts)]
            for name, side in sides.items()
        }
        router = b.weight("router.weight", (shape.experts, shape.hidden))
        made = b.moe(
            rows, routing, weights["gate"], weights["up"], weights["down"], router=router,
            max_rows=self.max_rows, activation=shape.layer.activation,
        )  # fmt: skip
        return b.reshape(made, x.shape)


@dataclass(frozen=True)
class RepeatedBlock:
    """A model as its block, which runs once for each layer with other weights and another cache.

    Attributes
    ----------
    block : the graph of one layer; its output ``y`` is the input ``x`` of the next.
    layers : how many layers there are.
    """

    block: OperatorGraph
    layers: int

    @property
    def flops(self) -> int:
        """FLOPs of all layers."""
        return self.layers * self.block.flops

    @property
    def parameters(self) -> int:
        """Elements of the weights of all layers."""
        return self.layers * self.block.parameters

    @property
    def block_bytes(self) -> int:
        """Bytes from the weights of one layer to those of the next: its packed weights."""
        return sum(tensor.bytes for tensor in self.block.with_role("weight"))

    def weight_base(self, layer: int) -> dict[str, int]:
        """Where the weights of a layer begin off chip, in bytes from those of the first layer."""
        self._check(layer)
        at, found = layer * self.block_bytes, {}
        for tensor in self.block.with_role("weight"):
            found[tensor.name] = at
            at += tensor.bytes
        return found

    @typed
    def name(self, layer: int, tensor: str) -> str:
        """The name of a weight, state or new cache row of a layer: ``layers.3.attn.q``."""
        self._check(layer)
        return f"layers.{layer}.{tensor}"

    def _check(self, layer: int) -> None:
        if not is_whole(layer) or not 0 <= layer < self.layers:
            raise CompileError(
                f"{self.block.name}: there is no layer {shown(layer)}; use 0 to {self.layers - 1}"
            )

    @typed
    def evaluate(self, values: Mapping[str, Any], dtype: Any = "float32") -> dict[str, Any]:
        """Results of the model: ``y`` and the new rows of the cache of each layer.

        Parameters
        ----------
        values : inputs of the block by name, weights and states under :meth:`name`.

        Raises
        ------
        CompileError : a value is missing, unknown or of another shape.
        """
        shared = [tensor.name for tensor in self.block.with_role("input")]
        own = [tensor.name for tensor in self.block.with_role("weight", "state")]
        known = {*shared, *(self.name(i, tensor) for i in range(self.layers) for tensor in own)}
        for name in [*values, *known]:
            if name not in known or name not in values:
                what = "is missing" if name in known else "is not a value of the model"
                raise CompileError(
                    f"{self.block.name}: {shown(name)} {what}; give each layer its own"
                )
        passed = {name: values[name] for name in shared}
        results: dict[str, Any] = {}
        for layer in range(self.layers):
            mine = {tensor: values[self.name(layer, tensor)] for tensor in own}
            found = self.block.evaluate({**passed, **mine}, dtype)
            passed["x"] = found["y"]
            for name in self.block.outputs:
                results[self.name(layer, name)] = found[name]
        return results | {"y": passed["x"]}


@typed
def whole_model(
    model: str | Model | ModelShape,
    phase: Phase | None = None,
    *,
    layers: int | None = None,
    **sizes: Any,
) -> RepeatedBlock:
    """All layers of a model: :func:`block`, once for each of them, as the paper runs it.

    Parameters
    ----------
    layers : None is the number of the model.
    sizes : arguments of :func:`block`.

    Raises
    ------
    CompileError : ``layers`` is not a whole number from 1, or as :func:`block`.
    """
    count = model_shape(model).layers if layers is None else layers
    if not is_whole(count) or count < 1:
        raise CompileError(f"whole_model: layers is {shown(count)}; use an int from 1")
    return RepeatedBlock(block(model, phase, **sizes), count)
