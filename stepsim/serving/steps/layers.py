"""The layers of a model as programs of the workload ``step``, and exact runs of them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from stepsim.collection import without_collection
from stepsim.errors import ServingError
from stepsim.graph import without_source_lines
from stepsim.processes import usable_cpus
from stepsim.serving.scheduling.interface import Batch
from stepsim.serving.steps.interface import NOT_OF_ENGINES
from stepsim.simulation import Prepared, Totals, prepare, with_metadata
from stepsim.workloads import Data, ParameterError, Step, fields_of, handover

if TYPE_CHECKING:
    from stepsim.machine import Machine
    from stepsim.workloads.step.build import BuiltStep

PREPARED: Final = 32
"""Programs that are kept, each of 10 to 20 MB. Batches of as many requests that decode have equal
programs, and their number comes back to the same values again and again."""

_ONE_TOKEN = Data.of(routing=[[0]], kv_lengths=[0], new_tokens=[1])
"""The least batch, of which every step model must be able to build the layers."""


@dataclass(frozen=True, slots=True)
class LayerKind:
    """Layers that have one program for a batch, but for their routing.

    Attributes
    ----------
    workload : the layer.
    layers : how many layers of the model are of this kind.
    routed : their places among the layers with experts; empty for dense networks.
    """

    workload: Step
    layers: int
    routed: tuple[int, ...]

    @property
    def name(self) -> str:
        """For messages: ``experts, window of 128 tokens``."""
        what = "experts" if self.routed else "dense network"
        window = self.workload.window
        return what if window is None else f"{what}, window of {window:,} tokens"


def layer_kinds(workload: Step) -> tuple[LayerKind, ...]:
    """The kinds of layers of the model of a layer: with a window or not, with experts or not.

    Dense layers come before those with experts. Each is on the chips of one stage.

    Raises
    ------
    ServingError : the number of layers is not known, or the workload is not of a whole model.
    """
    model = workload.model
    if model.layers is None:
        raise ServingError(
            f"steps: model {model.where} lacks the number of its layers; choose a whole model"
        )
    for name in ("network", "attention_layer"):
        if getattr(workload, name) is not None:
            raise ServingError(
                f"steps: {name}: has no effect, since all layers of {model.name} are simulated; "
                "leave it out"
            )
    dense = model.layers - (model.expert_layers or 0)
    mixed = dense and model.experts is not None
    windows = model.windows is not None and model.windows.layers is not None
    found: dict[tuple[bool, bool], list[int]] = {}
    for layer in range(model.layers):
        key = layer < dense, windows and model.window(layer) is not None
        found.setdefault(key, []).append(layer)
    kinds = []
    for (is_dense, _), layers in found.items():
        own = replace(
            workload,
            part="layer",
            pp=1,
            ep=1 if mixed and is_dense else workload.ep,
            network="dense" if mixed and is_dense else None,
            attention_layer=layers[0] if windows else None,
        )
        routed = () if is_dense else tuple(layer - dense for layer in layers)
        kinds.append(LayerKind(own, len(layers), routed))
    return tuple(kinds)


def _check_chips(workload: Step, machine: Machine) -> None:
    """Refuse chips that the machine does not have, and divisions that a service has no use for."""
    split, layers = workload.split, workload.model.layers
    problems = [*split.check_machine(machine)]
    for name, value in (("dp", split.dp), ("pp_micro_batches", split.micro)):
        if value > 1:
            problems.append((name, NOT_OF_ENGINES[name]))
    if layers is not None and split.pp > layers:
        problems.append(
            ("pp", f"expected at most the {layers} layers of the model, found {split.pp} stages")
        )
    if problems:
        raise ParameterError(problems)


def head_of(workload: Step) -> Step:
    """The head alone, with those parameters of a layer that have an effect on it."""
    known = fields_of(Step)
    values = {one.name: getattr(workload, one.name) for one in fields(workload)} | {"part": "head"}
    used = {name: value for name, value in values.items() if not known[name].unused(values)}
    return Step(**used)


def data_of_batch(batch: Batch, ids: NDArray[np.int32] | None) -> Data:
    """The data of a step: requests in the order in which tokens were granted."""
    tokens = int(batch.new.sum())
    routing = np.zeros((tokens, 1), dtype=np.int64) if ids is None else ids
    return Data.of(routing=routing, kv_lengths=batch.before, new_tokens=batch.new)


@dataclass(frozen=True, slots=True)
class Cost:
    """What a layer or the head takes: cycles, and bytes moved off chip."""

    cycles: int
    offchip_bytes: int


class StepPrograms:
    """Exact runs of layers and of the head on a machine.

    Attributes
    ----------
    kinds : the kinds of layers.
    clock_ghz : of the machine.
    runs : runs of layers and heads until now.

    Raises
    ------
    ServingError : the machine states no clock, or the model is not whole.
    ParameterError : a layer or the head cannot be built, or is on more chips than there are.
    """

    def __init__(self, workload: Step, machine: Machine) -> None:
        if machine.clock_ghz is None:
            raise ServingError(
                f"machine {machine.name} states no clock, so that its cycles have no length; set "
                "clock_ghz, as by --set clock_ghz=1 or overrides={'clock_ghz': 1}"
            )
        if workload.model.vocabulary is None:
            raise ServingError(
                f"steps: model {workload.model.where} lacks its vocabulary, which the head needs"
            )
        self.workload, self.machine = workload, machine
        self.clock_ghz: float = machine.clock_ghz
        _check_chips(workload, machine)
        self.kinds = layer_kinds(workload)
        self.runs = 0
        self._head = head_of(workload)
        for part in (self._head, *(kind.workload for kind in self.kinds)):
            part.checked(_ONE_TOKEN)
        self._heads: dict[int, Cost] = {}
        self._handovers: dict[int, Cost] = {}
        self._prepared: OrderedDict[Hashable, tuple[BuiltStep, Prepared]] = OrderedDict()
        self._latest: dict[int, tuple[Hashable, tuple[BuiltStep, Prepared]]] = {}

    def on_chips(self, kind: int) -> bool:
        """Whether layers of a kind are on several chips, with a program for each routing."""
        return self.kinds[kind].workload.split.chips > 1

    def shares(self, kind: int) -> bool:
        """Whether batches with equal new tokens share a program, as far as the machine says."""
        sized = self.machine.onchip.capacity_bytes is not None
        return not (sized or self.machine.hbm.model == "dram" or self.on_chips(kind))

    def nanoseconds(self, cycles: float) -> int:
        """Cycles of the machine in ns, rounded."""
        return round(cycles / self.clock_ghz)

    def layers(
        self, kind: int, batch: Batch, ids: Sequence[NDArray[np.int32]] | None
    ) -> list[Cost]:
        """Layers of one kind for a batch, one for each routing ``[tokens, k]``; dense: one.

        Raises
        ------
        ServingError : a run does not succeed.
        """
        if self.on_chips(kind):
            totals = [self._on_chips(kind, batch, one) for one in ids or (None,)]
            self.runs += len(totals)
            return [self._cost(one, self.kinds[kind].name, batch) for one in totals]
        built, prepared = self._of_batch(kind, batch, None if ids is None else ids[0])
        if ids is None:
            data = data_of_batch(batch, None)
            totals = [prepared.run(built.bindings(data))]
        else:
            (table,) = built.bindings(data_of_batch(batch, ids[0]))
            threads = min(len(ids), usable_cpus())
            totals = prepared.run_many({table: np.stack(list(ids))}, threads=threads)
        self.runs += len(totals)
        return [self._cost(one, self.kinds[kind].name, batch) for one in totals]

    def head(self, rows: int) -> Cost:
        """The head of so many rows; nothing without any."""
        if not rows:
            return Cost(0, 0)
        if rows not in self._heads:
            built = self._head.build(Data.of(rows=rows))
            done = prepare(built.program, machine=self.machine).run()
            self.runs += 1
            self._heads[rows] = self._cost(done, f"head of {rows} rows", None)
        return self._heads[rows]

    def handover(self, rows: int) -> Cost:
        """So many rows on their way through the stages: what every stage but the last hands over
        to the next. Nothing with one stage.

        Raises
        ------
        ServingError : a run does not succeed.
        """
        if rows not in self._handovers:
            split, types = self.workload.split, self.workload.types
            width = self.workload.model.model_dim
            costs = [Cost(0, 0)]
            for stage in range(split.pp - 1):
                program = handover(split, stage, rows, width, types.activations)
                done = prepare(program, machine=self.machine).run()
                costs.append(self._cost(done, f"handover of {rows} rows", None))
            self._handovers[rows] = Cost(
                sum(one.cycles for one in costs), sum(one.offchip_bytes for one in costs)
            )
        return self._handovers[rows]

    def _on_chips(self, kind: int, batch: Batch, ids: NDArray[np.int32] | None) -> Totals:
        """A layer on several chips, whose program is built for its routing."""
        data = data_of_batch(batch, ids)
        built = self.kinds[kind].workload.build(data)
        return prepare(built.program, machine=self.machine).run(built.bindings(data))

    def _of_batch(
        self, kind: int, batch: Batch, ids: NDArray[np.int32] | None
    ) -> tuple[BuiltStep, Prepared]:
        key = batch.new.tobytes(), batch.before.tobytes()
        latest = self._latest.get(kind)
        if latest is None or latest[0] != key:
            latest = key, self._with_cached(kind, data_of_batch(batch, ids))
            self._latest[kind] = latest
        return latest[1]

    def _with_cached(self, kind: int, data: Data) -> tuple[BuiltStep, Prepared]:
        """The program of data: that of others with the same new tokens, if there is one."""
        key = kind, data.new.tobytes()
        known = self._prepared.get(key)
        if known is None:
            # No line of a user's code built a step.
            with without_collection(), without_source_lines():
                built = self.kinds[kind].workload.build(data)
                prepared = prepare(built.program, machine=self.machine)
            if prepared.timing.dram is None and prepared.fit is None:
                self._prepared[key] = built, prepared
                while len(self._prepared) > PREPARED:
                    self._prepared.popitem(last=False)
            return built, prepared
        self._prepared.move_to_end(key)
        built, prepared = known
        return built, with_metadata(prepared, built.integers(data))

    def _cost(self, totals: Totals, what: str, batch: Batch | None) -> Cost:
        if totals.status != "ok":
            size = "" if batch is None else f" of {len(batch.new)} requests"
            raise ServingError(
                f"steps: the program of a step{size} ({what}) on {self.machine.name} ends with "
                f"{totals.status}: {totals.reason}; change its parameters or the machine"
            )
        return Cost(totals.cycles, totals.offchip_bytes)
