"""The builder of operator graphs: what models are made of; importers use nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stepsim.arguments import is_number, is_whole, shown
from stepsim.design.operators.building.recorder import Labels, Ref
from stepsim.design.operators.building.routed_builder import RoutedBuilder
from stepsim.design.operators.expressions import Expr
from stepsim.typed import typed_class


@typed_class
class GraphBuilder(RoutedBuilder):
    """Records a model, an operator at a time; :meth:`graph` gives the verified graph.

    Values are :class:`Ref`, with a shape. Methods are called as PyTorch calls them, and take axes
    that count from the end. Views (reshape, transpose, chunk, slices) record nothing. Every method
    raises CompileError for shapes that do not fit, with the module path and source line of
    :meth:`at`.

    Example
    -------
    >>> b = GraphBuilder("mlp", dtype="i8", weight_dtype="i4")
    >>> x = b.input("x", (16, 64))
    >>> y = b.linear(b.silu(b.linear(x, b.weight("up", (256, 64)))), b.weight("down", (64, 256)))
    >>> _ = b.output(y, "y")
    >>> b.graph().matrix_parameters
    32768
    """

    def softmax(self, x: Ref, axis: int = -1) -> Ref:
        """``exp(x - max)`` along an axis, divided by its sum: four operators."""
        at = self.axis("softmax", x, axis)
        with self.at("softmax"):
            shifted = self.elementwise(
                "exp", ("exp", ("sub", ("arg", 0), ("arg", 1))), x, self.max(x, at, keepdim=True)
            )
            return self.div(shifted, self.sum(shifted, at, keepdim=True))

    def layer_norm(
        self, x: Ref, w: Ref | None = None, bias: Ref | None = None, eps: float = 1e-5
    ) -> Ref:
        """Deviations from the mean of the last axis, over their root mean square."""
        self._check_norm("layer_norm", x, w, bias, eps)
        with self.at("layer_norm"):
            centered = self.sub(x, self.mean(x, -1, keepdim=True))
            return self._normalized(centered, w, bias, eps, unit_offset=False)

    def rms_norm(self, x: Ref, w: Ref | None, eps: float, unit_offset: bool = False) -> Ref:
        """The last axis over its root mean square, times ``w``, or ``1 + w`` with unit_offset."""
        self._check_norm("rms_norm", x, w, None, eps)
        with self.at("rms_norm"):
            return self._normalized(x, w, None, eps, unit_offset)

    def _check_norm(self, name: str, x: Ref, w: Ref | None, bias: Ref | None, eps: float) -> None:
        if not is_number(eps) or eps < 0:
            self.fail(f"{name}: eps is {shown(eps)}", "use a number from 0")
        for role, given in (("weight", w), ("bias", bias)):
            if given is not None and given.shape != x.shape[-1:]:
                self.fail(f"{name}: the {role} is {given}", f"give the last axis of {x}")

    def _normalized(
        self, x: Ref, w: Ref | None, bias: Ref | None, eps: float, unit_offset: bool
    ) -> Ref:
        squares = self.reduce("squares", "sum", x, -1, keepdim=True, body=("square", ("arg", 0)))
        mean: Expr = ("mul", ("arg", 0), ("const", 1 / x.shape[-1]))
        root = self.elementwise("rsqrt", ("rsqrt", ("add", mean, ("const", float(eps)))), squares)
        body: Expr = ("mul", ("arg", 0), ("arg", 1))
        inputs = [x, root]
        if w is not None:
            inputs.append(w)
            gain: Expr = ("arg", len(inputs) - 1)
            body = ("mul", body, ("add", ("const", 1.0), gain) if unit_offset else gain)
        if bias is not None:
            inputs.append(bias)
            body = ("add", body, ("arg", len(inputs) - 1))
        return self.elementwise("scaled", body, *inputs)

    def embedding(self, indices: Ref, table: Ref) -> Ref:
        """The rows of a table that whole numbers name, one for each."""
        if table.rank != 2:
            self.fail(f"embedding: the table is {table}", "give a matrix (rows, width)")
        if not table.view.is_plain(self._tensors[table.tensor].stored):
            table = self.copy(table)
        lead = [f"d{axis}" for axis in range(indices.rank)]
        return self.record(
            "embedding", [(self.select(table, 0, 0), ["n"]), (indices, lead)],
            [*((label,) for label in lead), ("n",)], kind="gather", attributes={"axis": 0},
        )  # fmt: skip

    def rotary(self, x: Ref, cos: Ref, sin: Ref, pairs: str = "half") -> Ref:
        """Rotary position embedding of the last axis, of d columns.

        Parameters
        ----------
        cos, sin : d / 2 angles in the last axis, or d, one for each column; the axes before
            broadcast to those of ``x``.
        pairs : ``"half"``, columns i and i + d / 2 belong together, or ``"interleaved"``.
        """
        if pairs not in ("half", "interleaved"):
            self.fail(f"rotary: pairs is {shown(pairs)}", "use 'half' or 'interleaved'")
        width = x.shape[-1] if x.rank else 1
        if width % 2:
            self.fail(f"rotary: the last axis of {x} has no pairs", "give an even width")
        inner = ("t", "p") if pairs == "half" else ("p", "t")
        sizes = {"t": 2, "p": width // 2}

        def paired(y: Ref) -> Ref:
            return self.reshape(y, (*y.shape[:-1], *(sizes[label] for label in inner)))

        lead = [f"d{axis}" for axis in range(x.rank - 1)]
        operands: list[tuple[Ref, Labels]] = [(self._whole(paired(x)), [*lead, *inner])]
        for role, angles in (("cos", cos), ("sin", sin)):
            own = angles.shape[:-1]
            if len(own) > len(lead) or angles.shape[-1:] not in ((width,), (width // 2,)):
                self.fail(
                    f"rotary: {role} is {angles} for {x}",
                    f"give {width // 2} or {width} columns, and no more axes than x has",
                )
            at = len(lead) - len(own)
            labels: list[str | None] = [
                label if size == full or size > 1 else None
                for label, size, full in zip(lead[at:], own, x.shape[at:-1], strict=True)
            ]
            if angles.shape[-1] == width:
                operands.append((self._whole(paired(angles)), [*labels, *inner]))
            else:
                operands.append((angles, [*labels, "p"]))
        output = [*((label,) for label in lead), inner]
        return self.record("rotary", operands, output, kind="rotary", attributes={"turn": "t"})

    def _whole(self, x: Ref) -> Ref:
        """The value with one atom for each of the last two axes, by which pairs are found."""
        inner = self._current(x).axes[-2:]
        return self.copy(x) if any(len(atoms) > 1 for atoms in inner) else x

    def causal_mask(self, scores: Ref, start: int = 0, window: int | None = None) -> Ref:
        """Scores [..., query, key] with keys behind their query at minus infinity.

        Parameters
        ----------
        start : position of the first query; keys count from 0.
        window : keys that a query sees, itself included; None is all.
        """
        if scores.rank < 2:
            self.fail(f"causal_mask: scores are {scores}", "give axes of queries and keys")
        if not is_whole(start) or start < 0:
            self.fail(f"causal_mask: start is {shown(start)}", "use an int from 0")
        if window is not None and (not is_whole(window) or window < 1):
            self.fail(f"causal_mask: window is {shown(window)}", "use an int from 1, or None")
        labels = [*(f"b{axis}" for axis in range(scores.rank - 2)), "s", "t"]
        return self.record(
            "causal_mask", [(self.single(scores), labels)], [(label,) for label in labels],
            kind="causal_mask",
            attributes={"query": "s", "key": "t", "start": start, "window": window},
        )  # fmt: skip

    def concat(self, parts: Sequence[Ref], axis: int = -1) -> Ref:
        """Values one after the other along an axis."""
        if not parts:
            self.fail("concat: there is nothing to join", "give a value at least")
        at = self.axis("concat", parts[0], axis)
        rest = [(x.shape[:at], x.shape[at + 1 :]) for x in parts]
        if any(other != rest[0] for other in rest):
            self.fail(f"concat: {' and '.join(map(repr, parts))} do not fit along axis {axis}",
                      "give equal shapes but for that axis")  # fmt: skip
        sizes = [x.shape[at] for x in parts]
        offsets = [sum(sizes[:i]) for i in range(len(sizes))]
        labels = [f"d{i}" for i in range(parts[0].rank)]
        along = labels[at]
        return self.record(
            "concat", [(self.single(x), labels) for x in parts], [(label,) for label in labels],
            kind="concat", attributes={"dim": along, "offsets": offsets},
            sizes={along: sum(sizes)}, starts={along: offsets},
        )  # fmt: skip

    def cache_append(self, cache: Ref, new: Ref, axis: int = -2) -> Ref:
        """The cached rows with the new ones behind them, as attention reads them.

        What is new reaches the cache as an :meth:`output` of the graph.
        """
        at = self.axis("cache_append", cache, axis)
        with self.at("cache"):
            return self.concat((cache, new), at)

    def sdpa(
        self,
        q: Ref,
        k: Ref,
        v: Ref,
        causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
        *,
        mask: Ref | None = None,
        start: int | None = None,
        window: int | None = None,
    ) -> Ref:
        """Scaled dot-product attention of [..., heads, tokens, width], as PyTorch has it.

        Parameters
        ----------
        scale : of the scores; None is ``width ** -0.5``.
        enable_gqa : k and v may have fewer heads, each for several of q.
        mask : what is added to the scores.
        start : position of the first query under the causal mask; None is the number of keys less
            that of queries. PyTorch's ``is_causal`` is 0.
        window : keys that a query sees under the causal mask.
        """
        if min(q.rank, k.rank, v.rank) < 3:
            self.fail(f"sdpa: found {q}, {k} and {v}", "give axes of heads, tokens and width")
        if not causal and (start is not None or window is not None):
            self.fail("sdpa: start and window are of the causal mask", "set causal, or drop them")
        heads, groups = q.shape[-3], k.shape[-3]
        shape = q.shape
        grouped = enable_gqa and heads != groups
        if grouped:
            if heads % groups or v.shape[-3] != groups:
                self.fail(f"sdpa: {heads} heads of {q} do not share {k} and {v}", "give divisors")
            q = self.reshape(q, (*shape[:-3], groups, heads // groups, *shape[-2:]))
            k, v = self.unsqueeze(k, -3), self.unsqueeze(v, -3)
        tokens, keys = q.shape[-2], k.shape[-2]
        with self.at("sdpa"):
            scores = self.matmul(q, self.transpose(k))
            scores = self.scale(scores, q.shape[-1] ** -0.5 if scale is None else scale)
            if mask is not None:
                scores = self.add(scores, self._grouped_mask(mask, heads, groups, grouped))
            if causal:
                first = keys - tokens if start is None else start
                scores = self.causal_mask(scores, first, window)
            out = self.matmul(self.softmax(scores), v)
        return self.reshape(out, (*shape[:-1], v.shape[-1]))

    def _grouped_mask(self, mask: Ref, heads: int, groups: int, grouped: bool) -> Ref:
        if not grouped or mask.rank < 3:
            return mask
        own = mask.shape[-3]
        split = (groups, heads // groups) if own == heads else (own, 1)
        return self.reshape(mask, (*mask.shape[:-3], *split, *mask.shape[-2:]))

    def moe(
        self,
        x: Ref,
        routing: Ref,
        gate: Sequence[Ref],
        up: Sequence[Ref],
        down: Sequence[Ref],
        *,
        weights: Ref | None = None,
        router: Ref | None = None,
        normalize: bool = True,
        max_rows: int | None = None,
        activation: str = "silu",
    ) -> Ref:
        """Mixture of experts: rows ``[rows, D]`` through the gated networks of their experts.

        Parameters
        ----------
        routing : of :meth:`routing`: which experts each row goes to.
        gate, up, down : a weight for each expert, (inner, D), (inner, D) and (D, inner).
        weights : factors ``[rows, k]`` of the results; or give ``router``.
        router : a weight (experts, D): factors are its softmax at the chosen experts.
        normalize : with a router, divide the factors by their sum.
        max_rows : declared maximum of rows of an expert; None is all rows.
        """
        experts = len(gate)
        if not experts or {len(up), len(down)} != {experts}:
            self.fail(f"moe: {experts}, {len(up)} and {len(down)} weights of gate, up and down",
                      "give one of each for every expert")  # fmt: skip
        if (weights is None) == (router is None):
            self.fail("moe: weights and router are both given or both missing", "give one of them")
        with self.at("moe"):
            if weights is None:
                assert router is not None
                with self.at("router"):
                    weights = self.choose(self.softmax(self.linear(x, router)), routing)
                    if normalize:
                        weights = self.div(weights, self.sum(weights, -1, keepdim=True))
            results = []
            for e, rows in enumerate(self.dispatch(x, routing, experts, max_rows)):
                with self.at(f"expert{e}"):
                    gated = self.apply(activation, self.linear(rows, gate[e]))
                    hidden = self.mul(gated, self.linear(rows, up[e]))
                    results.append(self.linear(hidden, down[e]))
            return self.combine(results, weights, routing)

    def opaque(
        self, target: str, inputs: Sequence[Ref], shape: Sequence[int], flops: int = 0
    ) -> Ref:
        """An operator of which only cost and result shape are known; it reads all of its inputs."""
        if not inputs:
            self.fail(f"opaque {target} has no input", "give what it reads")
        operands: list[tuple[Ref, Labels]] = []
        for number, x in enumerate(inputs):
            operands.append((x, [f"i{number}_{axis}" for axis in range(x.rank)]))
        labels = [f"d{axis}" for axis in range(len(shape))]
        attributes: dict[str, Any] = {"target": target, "flops": flops}
        return self.record(
            "opaque", operands, [(label,) for label in labels], kind="opaque",
            attributes=attributes, sizes=dict(zip(labels, shape, strict=True)),
        )  # fmt: skip
