"""The description of a target machine: off-chip memory, on-chip bandwidth and FIFO policy.

Times are cycles, sizes are bytes. A machine is frozen; a changed one is a new one
(``load_machine(machine, overrides=...)``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from stepsim.arguments import shown
from stepsim.errors import MachineError
from stepsim.wording import describe_problems

__all__ = ["DEFAULT_FIFO_DEPTH", "Fifo", "Hbm", "Machine", "OnChip", "machine_json_schema"]

DEFAULT_FIFO_DEPTH = 1024
"""Tokens that a FIFO holds when neither run nor machine nor program gives a depth."""

_ONCHIP_2026 = 512
"""On-chip bytes per cycle of the public simulator of 2026, a constant of its whole machine."""

# Upper limits keep every product of a run inside 64-bit integers.
_Bytes = Annotated[int, Field(strict=True, ge=1, le=1 << 20)]
_Cycles = Annotated[int, Field(strict=True, ge=0, le=1 << 20)]
_PositiveCycles = Annotated[int, Field(strict=True, ge=1, le=1 << 20)]
_Depth = Annotated[int, Field(strict=True, ge=1, le=1 << 20)]
_Text = Annotated[str, Field(strict=True, min_length=1)]


class _Section(BaseModel):
    """Raises MachineError when it is made of wrong values, or changed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def __init__(self, *given: Any, **values: Any) -> None:
        name = type(self).__name__
        if given:
            raise MachineError(
                f"{name}: expected keywords ({', '.join(type(self).model_fields)}), found "
                f"{shown(given[0])} without one"
            )
        try:
            super().__init__(**values)
        except ValidationError as error:
            problems = describe_problems(error, type(self))
            raise MachineError(f"{name}: " + "; ".join(problems)) from None

    # Pydantic then makes the sections of a document itself, and its errors name the whole path.
    __init__.__dict__["__pydantic_base_init__"] = True

    def __setattr__(self, name: str, value: Any) -> None:
        raise MachineError(
            f"{type(self).__name__}: {shown(name)} cannot be set, a machine does not change; make "
            "another with load_machine(machine, overrides={...})"
        )


class Hbm(_Section):
    """Off-chip memory as independent channels with a fixed rhythm (STeP paper, section 4)."""

    model: _Text = Field(
        default="interleaved",
        description="memory model; 'interleaved' deals the requests of every operator to the "
        "channels in turn, 'published' is that of the STeP paper, 'uncontended' gives every "
        "operator a memory of its own, plugins may add others",
    )
    request_bytes: _Bytes = Field(description="bytes moved by one request")
    channels: Annotated[int, Field(strict=True, ge=1, le=1 << 16)] = Field(
        description="number of independent channels"
    )
    latency: _Cycles = Field(description="cycles from service to response of one request")
    interval: _PositiveCycles = Field(
        description="cycles between the starts of two requests on the same channel"
    )
    startup: _Cycles = Field(description="cycles added to the latency of every request")


class OnChip(_Section):
    """On-chip memory, seen by each operand of an operator on its own."""

    bytes_per_cycle: _Bytes = Field(description="bandwidth of one on-chip memory unit")


class Fifo(_Section):
    """The FIFOs between operators."""

    depth: _Depth | None = Field(
        default=None,
        description="tokens a FIFO holds when a run gives no depth; null leaves it to the program, "
        f"else {DEFAULT_FIFO_DEPTH}",
    )


class Machine(_Section):
    """A validated target machine. Build one with `load_machine`.

    Raises
    ------
    MachineError : an unknown, missing, mistyped or out-of-range value.
    """

    name: _Text = Field(description="short name, shown in results")
    description: Annotated[str, Field(strict=True)] = Field(
        default="", description="what the machine describes"
    )
    model: Literal["step-2025", "step-2026"] = Field(
        default="step-2025",
        description="timing rules of the operators: those of the published artifact, or of the "
        "public simulator since, which leaves onchip.bytes_per_cycle at "
        f"{_ONCHIP_2026} where a file names none",
    )
    hbm: Hbm = Field(description="off-chip memory")
    onchip: OnChip = Field(description="on-chip memory")
    fifo: Fifo = Field(default=Fifo(), description="FIFOs between operators")
    closure_slack: Annotated[int, Field(strict=True, ge=0, le=16)] = Field(
        default=0,
        description="cycles how much earlier the end of a stream is noticed; 0 is canonical",
    )

    @model_validator(mode="before")
    @classmethod
    def _as_the_model_has_it(cls, data: Any) -> Any:
        """Only the model of 2026 has an on-chip bandwidth of its own; others are named."""
        if not isinstance(data, Mapping) or data.get("model") != "step-2026":
            return data
        onchip = data.get("onchip", {})
        if isinstance(onchip, Mapping) and "bytes_per_cycle" not in onchip:
            return {**data, "onchip": {**onchip, "bytes_per_cycle": _ONCHIP_2026}}
        return data

    @property
    def peak_bandwidth(self) -> float:
        """Off-chip bytes per cycle when every channel is busy: channels x bytes / interval."""
        return self.hbm.channels * self.hbm.request_bytes / self.hbm.interval

    @property
    def fifo_depth(self) -> int:
        """Depth in tokens of a FIFO for which neither a run nor its program gives one."""
        return DEFAULT_FIFO_DEPTH if self.fifo.depth is None else self.fifo.depth

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on runs on this machine, a sentence each."""
        channels = self.hbm.channels
        if self.hbm.model != "published" or channels & (channels - 1) == 0:
            return ()
        return (
            f"hbm.model 'published' loads its channels evenly only when their number is a power of "
            f"two; {channels} channels can take longer than fewer. hbm.model=interleaved is even "
            "for any number",
        )

    def to_dict(self) -> dict[str, Any]:
        """Every value, defaults included, as plain dicts; `load_machine` reads it back."""
        return self.model_dump()

    def to_yaml(self) -> str:
        """The text of a machine file that `load_machine` reads back as an equal machine."""
        return yaml.safe_dump(self.to_dict(), sort_keys=False, allow_unicode=True)

    def summary(self) -> str:
        """One line for the head of a run: the resolved numbers and the peak bandwidth."""
        hbm = self.hbm
        depth = "left to the run" if self.fifo.depth is None else str(self.fifo.depth)
        return (
            f"{self.name}: HBM {hbm.channels} channels x {hbm.request_bytes} B / "
            f"{hbm.interval} cycles = {self.peak_bandwidth:g} B/cycle peak, "
            f"latency {hbm.latency} + start-up {hbm.startup} cycles, model {hbm.model}; "
            f"on-chip {self.onchip.bytes_per_cycle} B/cycle; FIFO depth {depth}"
            + (f"; rules {self.model}" if self.model != "step-2025" else "")
            + (f"; closure slack {self.closure_slack}" if self.closure_slack else "")
        )


def machine_json_schema() -> dict[str, Any]:
    """JSON Schema of a machine file, for editors and other validators."""
    schema = Machine.model_json_schema()
    # Which values must be named depends on the model, which one list of keys cannot say.
    schema["required"].remove("onchip")
    del schema["$defs"]["OnChip"]["required"]
    schema["if"] = {"properties": {"model": {"const": "step-2026"}}, "required": ["model"]}
    schema["else"] = {
        "required": ["onchip"],
        "properties": {"onchip": {"required": ["bytes_per_cycle"]}},
    }
    return schema
