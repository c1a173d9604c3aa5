"""Settings of schedulers, with vLLM's names, defaults and checks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from stepsim.workloads import Param, ParameterError, check_fields

SCHEDULERS: Final = ("vllm", "static", "orca", "sarathi")
"""The schedulers that come with the compiled loop."""

_GIB: Final = 1 << 30

_BATCH: Final = "max_num_batched_tokens"
_SEQS: Final = "max_num_seqs"
_EVERYWHERE: Final = (
    _SEQS, "block_size", "num_blocks", "max_model_len", "gpu_memory_utilization", "pool",
)  # fmt: skip

_READ: Final[Mapping[str, tuple[str, ...]]] = {
    "static": _EVERYWHERE,
    "orca": _EVERYWHERE,
    "sarathi": (*_EVERYWHERE, _BATCH),
}
"""Settings that compiled schedulers other than vLLM's read."""

_DEFAULTS: Final[Mapping[str, Any]] = {
    "policy": "fcfs", "block_size": 16, "enable_chunked_prefill": True,
    "enable_prefix_caching": True, "long_prefill_token_threshold": 0,
    "long_prefill_token_threshold_adaptive": False, "threshold_alone": False,
    "scheduler_reserve_full_isl": True, "watermark": 0.0, "prefill_schedule_interval": 1,
    "gpu_memory_utilization": 0.92, "pool": "vllm",
}  # fmt: skip

_UNREAD_DEFAULTS: Final[Mapping[str, Any]] = {
    "enable_prefix_caching": False, "scheduler_reserve_full_isl": False,
}  # fmt: skip
"""Of schedulers that do not read these settings."""

_MOST: Final = (1 << 31) - 1
_OF_VLLM: Final = "as in vLLM, by memory"


@dataclass(frozen=True, kw_only=True)
class SchedulingChoices:
    """The settings of a scheduler, with the names of vLLM; None stands for its default.

    Raises
    ------
    ParameterError : one has the wrong type or is out of range; all of them are listed.
    """

    policy: Annotated[
        Literal["fcfs", "priority"] | None,
        Param("order of waiting requests; a smaller priority is more urgent", otherwise="fcfs"),
    ] = None
    max_num_batched_tokens: Annotated[
        int | None, Param("tokens that a step computes at most", "tokens", otherwise=_OF_VLLM)
    ] = None
    max_num_seqs: Annotated[
        int | None, Param("requests that run at a time", "requests", otherwise=_OF_VLLM)
    ] = None
    max_num_active_seqs: Annotated[
        int | None,
        Param(
            "requests that run at a time, if fewer than max_num_seqs",
            "requests",
            otherwise="max_num_seqs",
        ),
    ] = None
    block_size: Annotated[int | None, Param("tokens of a KV block", "tokens", otherwise="16")] = (
        None
    )
    num_blocks: Annotated[
        int | None,
        Param(
            "KV blocks in all", "blocks", most=_MOST, otherwise="as many as fit beside the weights"
        ),
    ] = None
    max_model_len: Annotated[
        int | None,
        Param(
            "longest prompt and output together",
            "tokens",
            least=2,
            most=_MOST,
            otherwise="no limit",
        ),
    ] = None
    enable_chunked_prefill: Annotated[
        bool | None, Param("cut prompts to what is left of a step", otherwise="on")
    ] = None
    enable_prefix_caching: Annotated[
        bool | None, Param("compute blocks of equal beginnings once", otherwise="on")
    ] = None
    long_prefill_token_threshold: Annotated[
        int | None,
        Param("tokens of one request in a step", "tokens", least=0, otherwise="no limit"),
    ] = None
    long_prefill_token_threshold_adaptive: Annotated[
        bool | None, Param("raise that limit to a fair share of the step", otherwise="off")
    ] = None
    threshold_alone: Annotated[
        bool | None,
        Param("keep that limit for a request that is alone, as LLMServingSim", otherwise="off"),
    ] = None
    scheduler_reserve_full_isl: Annotated[
        bool | None, Param("admit requests only if all their known tokens fit", otherwise="on")
    ] = None
    watermark: Annotated[
        float | None,
        Param(
            "share of the blocks kept free at admission",
            "fraction",
            least=0,
            most=1,
            otherwise="0",
        ),
    ] = None
    prefill_schedule_interval: Annotated[
        int | None, Param("begin prefills once in so many steps", "steps", otherwise="1")
    ] = None
    gpu_memory_utilization: Annotated[
        float | None,
        Param(
            "share of the memory for weights and blocks",
            "fraction",
            least=0,
            most=1,
            otherwise="0.92",
        ),
    ] = None
    pool: Annotated[
        Literal["vllm", "recorded"] | None,
        Param("rules of free KV blocks: of vLLM, or of LLMServingSim", otherwise="vllm"),
    ] = None

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True, kw_only=True)
class SchedulerSettings(SchedulingChoices):
    """A compiled scheduler and its settings.

    Raises
    ------
    ParameterError : settings have the wrong type, are out of range, have no effect with the others
        or contradict them; all of them are listed.
    """

    scheduler: Annotated[
        Literal["vllm", "static", "orca", "sarathi"], Param("rules of the scheduler")
    ] = "vllm"

    def __post_init__(self) -> None:
        super().__post_init__()
        problems = [*self._without_effect(), *_contradictions(vars(self))]
        if problems:
            raise ParameterError(problems)

    def _without_effect(self) -> Iterator[tuple[str, str]]:
        for name, value in self._given().items():
            if value is not None and name not in _READ.get(self.scheduler, (name,)):
                yield name, f"has no effect with scheduler {self.scheduler}; leave it out"
        if self.num_blocks is not None and self.gpu_memory_utilization is not None:
            yield "gpu_memory_utilization", "has no effect with num_blocks; leave one out"
        if not self.long_prefill_token_threshold:
            for name in ("long_prefill_token_threshold_adaptive", "threshold_alone"):
                if getattr(self, name):
                    yield name, "has no effect without long_prefill_token_threshold; leave it out"

    def _given(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(SchedulingChoices)}

    @property
    def memory_share(self) -> float:
        """Share of the memory for weights and blocks."""
        given = self.gpu_memory_utilization
        return float(_DEFAULTS["gpu_memory_utilization"] if given is None else given)

    @property
    def reads_memory(self) -> bool:
        """Whether a setting that is not given depends on the memory."""
        limits = [self.num_blocks, self.max_num_seqs]
        if self._has_budget:
            limits.append(self.max_num_batched_tokens)
        return None in limits

    @property
    def _has_budget(self) -> bool:
        return _BATCH in _READ.get(self.scheduler, (_BATCH,))

    def completed(
        self, num_blocks: int | None = None, device_bytes: int | None = None, *,
        is_a100: bool = False, offline: bool = False, throughput: bool = False,
    ) -> SchedulerRules:  # fmt: skip
        """All settings, with defaults for those that are not given.

        Args:
            num_blocks: blocks that the memory holds, if the settings do not say.
            device_bytes: memory of the device, on which the limits of a step depend in vLLM; None
                takes those of small devices.
            is_a100: whether the device is an A100, which has the limits of small devices.
            offline: take the limits of vLLM's offline class, not those of its server.
            throughput: take those of performance mode ``throughput``.

        Raises:
            ParameterError: the number of blocks is not known, or defaults contradict what is given.
        """
        given = self._given()
        defaults = _DEFAULTS if self.scheduler == "vllm" else {**_DEFAULTS, **_UNREAD_DEFAULTS}
        values: dict[str, Any] = {
            name: defaults.get(name) if value is None else value for name, value in given.items()
        }
        if self.num_blocks is None:
            values["num_blocks"] = num_blocks
        limits = _limits_of(device_bytes, is_a100, offline, throughput)
        values |= self._limits(*limits)
        problems = list(_contradictions(values))
        if values["num_blocks"] is None:
            problems.append(("num_blocks", "missing; give it where no memory is known"))
        if problems:
            raise ParameterError(problems)
        return SchedulerRules(scheduler=self.scheduler, **values)

    def _limits(self, budget: int, seqs: int) -> dict[str, int | None]:
        """Tokens and requests of a step, the defaults made to fit what is given."""
        seqs = self.max_num_seqs or seqs
        if not self._has_budget:
            return {_BATCH: None, _SEQS: seqs}
        tokens, length = self.max_num_batched_tokens, self.max_model_len
        if tokens is None:
            tokens = budget
            if length is not None:
                if self.enable_chunked_prefill is False:
                    tokens = max(tokens, length)
                tokens = min(tokens, seqs * length)
        return {_BATCH: tokens, _SEQS: self.max_num_seqs or min(seqs, tokens)}


@dataclass(frozen=True, kw_only=True)
class SchedulerRules:
    """Settings without gaps; the attributes are those of :class:`SchedulerSettings`.

    Attributes
    ----------
    max_num_batched_tokens, max_num_active_seqs, max_model_len : None is without a limit.
    """

    scheduler: str
    policy: str
    max_num_batched_tokens: int | None
    max_num_seqs: int
    max_num_active_seqs: int | None
    block_size: int
    num_blocks: int
    max_model_len: int | None
    enable_chunked_prefill: bool
    enable_prefix_caching: bool
    long_prefill_token_threshold: int
    long_prefill_token_threshold_adaptive: bool
    threshold_alone: bool
    scheduler_reserve_full_isl: bool
    watermark: float
    prefill_schedule_interval: int
    gpu_memory_utilization: float
    pool: str

    @property
    def usable_blocks(self) -> int:
        """Blocks for keys and values; vLLM never uses its first one."""
        return self.num_blocks - (self.pool == "vllm")

    def blocks_of(self, prompt: NDArray[np.int64], output: NDArray[np.int64]) -> NDArray[np.int64]:
        """Most blocks that requests of so many tokens ask for at once. [requests]"""
        length = prompt + output
        if self.max_model_len is not None:
            length = np.minimum(length, self.max_model_len)
        # The last token needs no room, but some schedulers reserve it.
        tokens = length if self.scheduler in ("static", "orca") else length - 1
        blocks: NDArray[np.int64] = -(-np.maximum(prompt, tokens) // self.block_size)
        return blocks


def _contradictions(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Settings that contradict others, by name; None is not given."""
    seqs, budget, active = values[_SEQS], values[_BATCH], values["max_num_active_seqs"]
    if seqs is not None and budget is not None and seqs > budget:
        yield _SEQS, f"expected at most max_num_batched_tokens ({budget}), found {seqs}"
    if active is not None and seqs is not None and active > seqs:
        yield "max_num_active_seqs", f"expected at most max_num_seqs ({seqs}), found {active}"
    length = values["max_model_len"]
    is_whole = values["enable_chunked_prefill"] is False
    if is_whole and budget is not None and length is not None and budget < length:
        yield (
            _BATCH,
            f"expected at least max_model_len ({length}) without chunked prefill, found {budget}; "
            "raise it, or set enable_chunked_prefill",
        )


def _limits_of(
    device_bytes: int | None, is_a100: bool, offline: bool, throughput: bool
) -> tuple[int, int]:
    """Tokens and requests of a step by default."""
    memory = 0 if device_bytes is None else device_bytes
    if memory >= 160 * _GIB:
        budget, seqs = 16384, 1024
    elif memory >= 70 * _GIB and not is_a100:
        budget, seqs = (16384 if offline else 8192), 1024
    else:
        budget, seqs = (8192 if offline else 2048), 256
    return (2 * budget, 2 * seqs) if throughput else (budget, seqs)
