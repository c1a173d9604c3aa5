"""Step times from the tables of a profile, as LLMServingSim takes them.

The host sends the token ids of a step and gets the new tokens back; in between come the layers of
the model. With tensor parallelism an all-reduce follows the projection of attention and the second
one of the feed-forward layers; all devices enter it together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from stepsim.errors import ArgError
from stepsim.kernels import (
    MOST_SKEW_BINS,
    AttentionTable,
    ExpertTable,
    Layer,
    LayerTime,
    Line,
    SkewTable,
    Stage,
    table_time,
    table_words,
)
from stepsim.serving.scheduling.engine import CompiledTime
from stepsim.serving.scheduling.interface import Batch
from stepsim.serving.steps.interface import StepTime
from stepsim.serving.steps.profile import ATTENTION, EXPERTS, SECTIONS, Profile
from stepsim.shown import shown
from stepsim.typed import typed_fields

_GIB_PER_NS = (1 << 30) / 1e9
_REDUCED = ("o_proj", "down_proj")
"""Layers of which every device has a part of each sum."""


@typed_fields
@dataclass(frozen=True, slots=True)
class Link:
    """The network between the devices of one instance.

    Attributes
    ----------
    gib_per_s : bandwidth of a link, in GiB/s.
    latency_ns : of a message.
    dims : shape of the network, innermost dim first; the product is the number of devices.
    """

    gib_per_s: float
    latency_ns: float
    dims: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.gib_per_s > 0 or not self.latency_ns >= 0 or min(self.dims, default=0) < 1:
            raise ArgError(
                f"link: found {self}, expected a bandwidth above 0, a latency from 0 on, and dims "
                "of at least 1"
            )


class TableSteps:
    """The time of steps from a profile.

    Args:
        profile: the tables.
        host_gbps: between host and device, in GB/s.
        memory_gbps: of the device's memory, in GB/s; needed for more than one device, and for
            weights that are loaded.
        link: between the devices; needed for more than one, and refused for one.
        weights_loaded: the weights of a layer are loaded in every step, and it waits for them;
            otherwise they are there.

    Attributes
    ----------
    words, reals : the tables as the compiled loop takes them.

    Raises
    ------
    ArgError : an argument is missing, has no effect, or is out of range.
    """

    how: ClassVar[str] = "table"

    def __init__(
        self,
        profile: Profile,
        host_gbps: float,
        *,
        memory_gbps: float | None = None,
        link: Link | None = None,
        weights_loaded: bool = False,
    ) -> None:
        self.profile = profile
        for name, value in (("host_gbps", host_gbps), ("memory_gbps", memory_gbps)):
            if value is not None and not value > 0:
                raise ArgError(f"table steps: {name} is {shown(value)}, expected GB/s above 0")
        _check_devices(profile, memory_gbps, link, weights_loaded)
        memory = 1.0 if memory_gbps is None else float(memory_gbps)
        self.words, self.reals = table_words(
            prologue=self._layers(SECTIONS[:1], memory, weights_loaded),
            block=self._layers(SECTIONS[1:-1], memory, weights_loaded),
            blocks=profile.layers,
            head=self._layers(SECTIONS[-1:], memory, weights_loaded),
            # The last device gets the step when the first one has its transfer.
            transfers_before=1 if link is None else 2,
            token_bytes=profile.hidden * profile.dtype_bytes,
            attention=AttentionTable(*profile.attention),
            skew=_skew_table(profile),
            experts=_expert_table(profile),
            collective=[] if link is None else _all_reduce(link.dims),
            host=float(host_gbps),
            memory=memory,
            link=1.0 if link is None else link.gib_per_s * _GIB_PER_NS,
            latency=0.0 if link is None else float(link.latency_ns),
        )
        # Plain Python adds its own numbers several times faster than those of numpy.
        self._words, self._reals = self.words.tolist(), self.reals.tolist()

    def time(self, step: int, batch: Batch) -> StepTime:
        """The time of a step; its number has no effect."""
        is_prefill = batch.new > 1
        before = batch.before[~is_prefill]
        return StepTime(self._ns(batch, is_prefill, before), how=self.how)

    def compiled(self) -> CompiledTime:
        """The same for the compiled loop."""
        return CompiledTime("table", self.words, self.reals)

    def _ns(self, batch: Batch, is_prefill: NDArray[np.bool_], before: NDArray[np.int64]) -> int:
        return int(
            table_time(
                self._words,
                self._reals,
                int(batch.new.sum()),
                len(batch.new),
                int(batch.new[is_prefill].sum()),
                int(batch.before[is_prefill].sum()),
                len(before),
                int(before.sum()),
                int(before.min(initial=1 << 62)),
                int(before.max(initial=0)),
            )
        )

    def _layers(
        self, sections: tuple[str, ...], memory: float, weights_loaded: bool
    ) -> list[LayerTime]:
        layers = []
        for section in sections:
            for name in self.profile.sequence[section]:
                loaded = int(self.profile.layer_bytes(name) / memory) if weights_loaded else 0
                line = None
                if name == ATTENTION:
                    kind = Layer.ATTENTION
                elif name == EXPERTS:
                    kind = Layer.EXPERTS
                else:
                    line = Line(*self.profile.lines[name])
                    of_requests = name in self.profile.per_request
                    kind = Layer.REQUESTS if of_requests else Layer.TOKENS
                layers.append(LayerTime(kind, line, loaded))
                if self.profile.tp > 1 and name in _REDUCED:
                    layers.append(LayerTime(Layer.COLLECTIVE))
        return layers


def _check_devices(
    profile: Profile, memory_gbps: float | None, link: Link | None, weights_loaded: bool
) -> None:
    if (link is None) != (profile.tp == 1):
        needs = "needs the link between them" if link is None else "has no link between devices"
        raise ArgError(
            f"table steps: {profile.folder} is a profile of {profile.tp} devices, which {needs}"
        )
    if link is not None and int(np.prod(link.dims)) != profile.tp:
        raise ArgError(
            f"table steps: a link of dims {link.dims} is for {int(np.prod(link.dims))} devices, "
            f"expected {profile.tp} as in {profile.folder}"
        )
    is_used = weights_loaded or link is not None
    if (memory_gbps is not None) != is_used:
        what = "is needed" if is_used else "has no effect"
        raise ArgError(
            f"table steps: memory_gbps {what} with {profile.tp} devices and "
            f"{'loaded' if weights_loaded else 'resident'} weights"
        )
    if profile.expert_lines and profile.tp > 1:
        raise ArgError(
            f"table steps: {profile.folder} has experts on {profile.tp} devices, expected a model "
            "without experts, or one device"
        )


def _skew_table(profile: Profile) -> SkewTable | None:
    skew = profile.skew
    if skew is None:
        return None
    if len(skew.bounds[1]) > MOST_SKEW_BINS:
        raise ArgError(
            f"table steps: {profile.folder} has {len(skew.bounds[1])} bins of skew, expected at "
            f"most {MOST_SKEW_BINS}"
        )
    return SkewTable(skew.default, skew.chunks, *skew.bounds, skew.values)


def _expert_table(profile: Profile) -> ExpertTable | None:
    if not profile.expert_lines:
        return None
    lines = [Line(*line) for line in profile.expert_lines.values()]
    active = np.array(list(profile.expert_lines), dtype=np.int64)
    return ExpertTable(active, lines, profile.top_k, profile.experts)


def _all_reduce(dims: tuple[int, ...]) -> list[Stage]:
    """The stages of an all-reduce: a ring in one dim; in several ones sums are scattered from the
    inner to the outer, and gathered on the way back."""
    rings = [devices for devices in dims if devices > 1]
    if len(rings) == 1:
        k = rings[0]
        return [Stage(2 * (k - 1), 2 * (k - 1) + 1, k - 1, k)]
    stages, parts = [], 1
    for k in rings:
        parts *= k
        stages.append(Stage(k - 1, k, k - 1, parts))
    for k in reversed(rings):
        stages.append(Stage(k - 1, k, 0, parts))
        parts //= k
    return stages
