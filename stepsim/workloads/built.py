"""The programs that workloads build, and what they say of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from stepsim.frozen import frozen
from stepsim.typed import typed_but

if TYPE_CHECKING:
    from stepsim.graph import Program
    from stepsim.workloads.inputs import Data


@frozen
class Counted:
    """Bytes and FLOPs of a program in one way of counting; see the glossary of metrics.

    Attributes
    ----------
    padded_flops : the part of ``flops`` on padding rows; None if unknown.
    """

    offchip_bytes: int
    onchip_bytes: int
    flops: int
    padded_flops: int | None
    allocated_flops_per_cycle: int


class Built:
    """A built program, and how data with the same `Workload.program_key` is bound to it.

    Attributes
    ----------
    program : the program.
    parameters : values of parameters, and of other columns, that are known only after building.
    notes : remarks on the program, a sentence each.
    fifo_depths : depths of FIFOs by name, for the machine that the workload is built for.
    earlier : programs that run before this one, one after another, as parts of the same work;
        measures are those of all together.
    """

    @typed_but("program")
    def __init__(
        self,
        program: Program,
        *,
        parameters: Mapping[str, Any] | None = None,
        notes: Iterable[str] = (),
        fifo_depths: Mapping[str, int] | None = None,
        earlier: Iterable[Built] = (),
    ) -> None:
        self.program = program
        self.earlier = tuple(earlier)
        self.fifo_depths = None if fifo_depths is None else dict(fifo_depths)
        self.parameters = dict(parameters or {})
        self.notes = tuple(notes)

    def bindings(self, data: Data) -> Mapping[Any, Any]:
        """Values of the unbound routings of the program."""
        return {}

    def symbols(self, data: Data) -> Mapping[Any, Any]:
        """Values of all symbolic sizes of the program, for its symbolic metrics."""
        return self.bindings(data)

    def tokens(self, data: Data) -> int | None:
        """Tokens that a run advances by one step, for token/s; None if not applicable.

        By default the rows of the traces of the data: a decoder makes one token for each request,
        and a layer passes on each token of its batch. Without a trace nothing says how many tokens
        the program processes, so a workload without inputs states them itself.
        """
        return None if data.routing is None and data.kv_lengths is None else data.rows

    def padded_flops(self, data: Data) -> int | None:
        """Executed FLOPs on padding rows; None if not known."""
        return None

    def published(self, data: Data) -> Counted | None:
        """Bytes and FLOPs as the published figures count them; None if there is no figure."""
        return None
