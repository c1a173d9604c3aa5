"""How a layer is divided among chips: the parts of a model, of data, and what does not divide."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from stepsim.deferred import deferred
from stepsim.graph import Groups
from stepsim.workloads.checks import divides
from stepsim.workloads.inputs import Data
from stepsim.workloads.models import Experts, LatentHeads

if TYPE_CHECKING:
    import numpy as np

    from stepsim.machine import Machine
    from stepsim.workloads.models import Model

    Table = np.ndarray[Any, np.dtype[np.int64]]
else:
    np = deferred("numpy")
    Table = Any


@dataclass(frozen=True, slots=True)
class Split(Groups):
    """Chips of a layer, and the parts that they have.

    Attributes
    ----------
    micro : micro-batches that pass through the stages one after the other.
    """

    micro: int = 1

    @property
    def text(self) -> str:
        """The chips as a product: ``tp 4 x dp 2``."""
        named = (("tp", self.tp), ("dp", self.dp), ("pp", self.pp))
        return " x ".join(f"{name} {value}" for name, value in named if value > 1)

    def requests(self, rows: int, group: int) -> Table:
        """The requests of a group: every one of ``dp``."""
        requests: Table = np.arange(group, rows, self.dp)
        return requests

    def tokens(self, data: Data, group: int) -> Table:
        """The new tokens of a group, as rows of the routing."""
        ends = np.cumsum(data.new)
        parts = [
            np.arange(ends[i] - data.new[i], ends[i]) for i in range(group, data.rows, self.dp)
        ]
        tokens: Table = np.concatenate(parts)
        return tokens

    def data(self, data: Data, group: int) -> Data:
        """The data of a group."""
        requests = self.requests(data.rows, group)
        return Data(
            None if data.routing is None else data.routing[self.tokens(data, group)],
            None if data.kv_lengths is None else data.kv_lengths[requests],
            len(requests), len(requests),
            None if data.new_tokens is None else data.new_tokens[requests],
        )  # fmt: skip

    def routing(self, data: Data, group: int, experts: int, active: int) -> Table:
        """The experts of the tokens of a group; an even choice, where none are given."""
        table = data.routing
        if table is None:
            even = np.arange(data.tokens * active) % experts
            table = even.reshape(data.tokens, active)
        rows: Table = table[self.tokens(data, group)]
        return rows

    def model(self, model: Model) -> Model:
        """The part of a model that each chip has."""
        heads, experts, dense = model.heads, model.experts, model.dense
        if isinstance(heads, LatentHeads):
            heads = replace(heads, heads=heads.heads // self.tp)
        elif heads is not None:
            heads = replace(
                heads, heads=heads.heads // self.tp, kv_heads=max(heads.kv_heads // self.tp, 1)
            )
        if experts is not None:
            count = experts.count // self.ep
            experts = Experts(
                count, min(experts.active, count), experts.inner_dim // self.sharing,
                experts.shared_inner // self.tp,
            )  # fmt: skip
        if dense is not None:
            dense = replace(dense, inner_dim=dense.inner_dim // self.tp)
        words = model.vocabulary and model.vocabulary // self.tp
        return replace(model, heads=heads, experts=experts, dense=dense, vocabulary=words)

    def notes(self, model: Model) -> list[str]:
        """What a run says of the chips: what they have copies of."""
        if self.chips == 1:
            return []
        divided = f", experts by ep {self.ep}" if model.experts and self.ep > 1 else ""
        notes, heads = [f"on {self.chips} chips: {self.text}{divided}"], model.heads
        if isinstance(heads, LatentHeads) and self.tp > 1:
            notes.append(f"each of {self.tp} chips has the whole latent cache of its requests")
        elif heads is not None and not isinstance(heads, LatentHeads) and self.tp > heads.kv_heads:
            each = self.tp // heads.kv_heads
            notes.append(f"each of the {heads.kv_heads} KV heads is on {each} chips of a group")
        if model.experts is not None and self.dp > self.across:
            notes.append(f"each expert is on {self.dp // self.across} groups of chips")
        return notes

    def batches(self, data: Data) -> list[Data]:
        """The data of each micro-batch: every one of ``micro`` requests."""
        turns = Split(dp=self.micro)
        return [data] if self.micro == 1 else [turns.data(data, j) for j in range(self.micro)]

    # checks

    def check(
        self, model: Model, data: Data, algorithm: str, *, heads: bool = True, experts: bool = True
    ) -> Iterator[tuple[str, str]]:
        """Problems with a model, whose layer has its heads, and its experts or dense network."""
        if self.tp > 1:
            if heads:
                yield from self._check_heads(model)
            yield from divides(
                "tp", self.tp, model.model_dim, f"the width {model.model_dim} of {model.name}"
            )
            if algorithm == "halving-doubling" and self.tp & (self.tp - 1):
                yield (
                    "collective",
                    f"halving-doubling needs a power of two as tp, found {self.tp}; choose ring or "
                    "direct",
                )
        if experts:
            yield from self._check_experts(model)
        yield from self.check_requests(data)

    def check_requests(self, data: Data) -> Iterator[tuple[str, str]]:
        """Problems with the requests: there are too few."""
        if self.dp > data.rows:
            yield "dp", f"expected a request for each group at least, found {data.rows} requests"
        elif self.dp * self.micro > data.rows:
            groups = f" of {self.dp} groups" if self.dp > 1 else ""
            yield (
                "pp_micro_batches",
                f"expected a request for each micro-batch{groups} at least, which are "
                f"{self.dp * self.micro}, found {data.rows} requests",
            )

    def _check_heads(self, model: Model) -> Iterator[tuple[str, str]]:
        heads = model.attention
        wrong = [*divides("tp", self.tp, heads.heads, f"the {heads.heads} heads of {model.name}")]
        kv = heads.kv_heads
        if not wrong and not isinstance(model.heads, LatentHeads) and kv % self.tp and self.tp % kv:
            wrong = [
                (
                    "tp",
                    f"expected a divisor or a multiple of the {kv} KV heads of {model.name}, found "
                    f"{self.tp}",
                )
            ]
        yield from wrong

    def _check_experts(self, model: Model) -> Iterator[tuple[str, str]]:
        if self.wrong_ep:
            yield "ep", self.wrong_ep
            return
        if model.experts is None:
            if self.ep > 1:
                yield "ep", f"expected 1, since {model.name} has no experts here, found {self.ep}"
            if model.dense is not None:
                inner = model.dense.inner_dim
                what = f"the inner dimension {inner} of {model.name}"
                yield from divides("tp", self.tp, inner, what)
            return
        experts = model.experts
        count, inner, shared = experts.count, experts.inner_dim, experts.shared_inner
        yield from divides("ep", self.ep, count, f"the {count} experts of {model.name}")
        what = f"the inner dimension {inner} of an expert of {model.name}"
        if self.sharing < self.tp:
            what += f", which {self.sharing} of tp {self.tp} chips divide"
        yield from divides("tp", self.sharing, inner, what)
        what = f"the inner dimension {shared} of the shared expert of {model.name}"
        yield from divides("tp", self.tp, shared, what)

    def check_machine(self, machine: Machine) -> Iterator[tuple[str, str]]:
        """Problems with a machine: it has too few chips."""
        if self.chips == 1:
            return
        name = "tp" if self.tp > 1 else "dp" if self.dp > 1 else "pp"
        has = 1 if machine.chips is None else machine.chips.total
        if has < self.chips:
            found = "one chip" if machine.chips is None else f"{has} chips"
            yield (
                name,
                f"expected a machine of {self.chips} chips for {self.text}, found {found} "
                f"({machine.name}); state chips.count, chips.topology, chips.gib_per_s and "
                "chips.latency_ns",
            )


def on_several_chips(given: Mapping[str, Any]) -> bool:
    """Whether parameters of a workload divide it among chips, so that its routing decides the
    program."""
    return any(given.get(name, 1) != 1 for name in ("tp", "pp", "dp"))
