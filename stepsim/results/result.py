"""The result of a run: totals, stall breakdown per unit, waits per FIFO, provenance."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from stepsim.arguments import shown
from stepsim.arrow import pa
from stepsim.deferred import deferred
from stepsim.errors import ArgError
from stepsim.frozen import frozen
from stepsim.machine import milliseconds
from stepsim.results import schemas
from stepsim.results.arrays import arrow_table
from stepsim.results.diagnosis import ENDED, Diagnosis
from stepsim.results.events import Events
from stepsim.results.occupancy import onchip_peak
from stepsim.results.tables import Tables
from stepsim.results.timeline import link_timeline, timeline

if TYPE_CHECKING:
    import html
    from os import PathLike

    from stepsim.results import outline as outlining, writing
    from stepsim.results.outline import Outline
else:
    html = deferred("html")
    outlining = deferred("stepsim.results.outline")
    writing = deferred("stepsim.results.writing")


def utilization(status: str, amount: float | None, room: float | None) -> float | None:
    """``amount`` divided by ``room``, the most that was possible in the run.

    None where one of them is not known, where ``room`` is 0, and for a run that did not finish, as
    bytes are counted when requested and cycles when they have passed.
    """
    if status not in ENDED or amount is None or not room:
        return None
    return amount / room


@frozen
class Result:
    """What a run cost and why.

    Attributes
    ----------
    program : name of the program.
    status : "ok", "infeasible" (it finished, but the program does not fit the machine, see
        ``diagnosis``), "deadlock", "failed" (a unit failed) or "limit" (a limit of the run was
        hit).
    cycles : length of the run: the largest final clock of all units, memory included. For a run
        that is not ok, the clock that was reached.
    offchip_bytes : useful off-chip bytes that were moved.
    bus_bytes : bytes on the memory bus, every tile row rounded up to whole requests.
    memory_requests, flops, tokens : totals over all units and FIFOs. Padding rows count.
    undelivered_tokens : tokens that were not received before the run ended, for example data for
        which there was no selector.
    engine_steps : unit firings executed, the cost of the run in machine-independent terms.
    wall_seconds : time of the simulation alone.
    tables : units and FIFOs, as the properties ``units`` and ``fifos`` give them.
    peak_bandwidth : off-chip bytes per cycle of the machine.
    peak_bytes : off-chip bytes that the machine can move in a run of this length, ``channels x
        request_bytes x ceil(cycles / interval)``; None where every operator has its
        own memory.
    provenance : program hash, machine, bindings, versions, plugins, model version and seed; of a
        `Case` also workload, parameters and digest of the cache lengths.
    diagnosis : for a run that is not ok, which unit waited for which, and what failed.
    notes : remarks on this program and machine, a sentence each.
    events : the recorded events; None if the run was not recorded.
    rerun : the inputs that :meth:`why` runs again; None where they are no longer known.
    energy : joules by component, with the ``total``, where the machine has a table of energies;
        the table of units then has them by unit.
    carried : for a placed program or one on several chips, what crossed the network, as `links`
        gives it.
    hardware : for a run at the hardware level, its :class:`~stepsim.hardware.HardwareResult`.
    """

    program: str
    status: str
    cycles: int
    offchip_bytes: int
    bus_bytes: int
    memory_requests: int
    flops: int
    tokens: int
    undelivered_tokens: int
    engine_steps: int
    wall_seconds: float
    tables: Tables
    peak_bandwidth: float
    peak_bytes: int | None
    provenance: Mapping[str, Any]
    diagnosis: Diagnosis | None = None
    notes: tuple[str, ...] = ()
    events: Events | None = field(default=None, compare=False)
    rerun: Any = field(default=None, compare=False)
    energy: Any = None
    hardware: Any = field(default=None, compare=False)
    carried: Any = field(default=None, compare=False)

    def links(self) -> pa.Table:
        """Arrow table of the links of the network on chip, for a placed program, or of those
        between chips, for a program on several.

        On a chip: packets, bytes and flits over every link, the flits as a share of the cycles of
        the run, and the cycles that segments of packets waited for it. Between chips: messages and
        bytes over every link, the cycles in which it sent, also as a share of the run, and the
        cycles for which messages waited for it.

        Raises
        ------
        ArgError
            The program was not placed and is on one chip, so that nothing crossed a network.
        """
        if self.carried is None:
            raise ArgError(
                f"result of '{self.program}': links() is of placed programs and of programs on "
                "several chips; use simulate(..., place=...), or `with st.chip(...)`"
            )
        return self.carried.links()

    def chips(self) -> pa.Table:
        """Arrow table of the chips of the machine, for a program on several of them.

        Of every chip, when its last operator ended; off-chip traffic, on-chip memory and FLOPs of
        its operators, and the use of its memory and its compute bandwidth in the whole run; and the
        messages that it sent and received.

        Raises
        ------
        ArgError
            The program is on one chip.
        """
        if not hasattr(self.carried, "chips"):
            raise ArgError(
                f"result of '{self.program}': chips() is of programs on several chips; put "
                "operators on them by `with st.chip(...)`"
            )
        return self.carried.chips()

    @property
    def network_summary(self) -> str | None:
        """A sentence on the busiest link, for a placed program and one on several chips; None for
        others, and where nothing crossed the network on chip."""
        return getattr(self.carried, "summary", None)

    @property
    def units(self) -> pa.Table:
        """Arrow table of the units (schema in :mod:`stepsim.results.schema`).

        The stall breakdown of a unit, ``busy + wait_input + wait_output + wait_memory + before +
        after``, adds up to ``cycles``.
        """
        return self.tables.units

    @property
    def fifos(self) -> pa.Table:
        """Arrow table of the FIFOs (schema in :mod:`stepsim.results.schema`)."""
        return self.tables.fifos

    @property
    def outline(self) -> Outline | None:
        """The program as files of runs keep it, see :mod:`stepsim.results.outline`.

        None for a result that was pickled, and for that of a unit network.
        """
        return None if self.rerun is None else outlining.outline_of(self.rerun.prepared.wiring)

    @property
    def milliseconds(self) -> float | None:
        """Length of the run in ms; None if the machine has no clock."""
        machine = self.provenance.get("machine") or {}
        return milliseconds(self.cycles, machine.get("clock_ghz"))

    @property
    def energy_joules(self) -> float | None:
        """Energy of the run in J; None if the machine has no table of energies."""
        return None if self.energy is None else float(self.energy.total)

    @property
    def edp(self) -> float | None:
        """Energy-delay product in J s; None without a table of energies or without a clock."""
        time = self.milliseconds
        return None if self.energy is None or time is None else self.energy.total * time / 1e3

    @property
    def bandwidth_utilization(self) -> float | None:
        """Useful off-chip bytes over the bytes the machine could move in that time: from 0 to 1.

        None for a run that is empty or not ok, and where every operator has its own memory.
        """
        return utilization(self.status, self.offchip_bytes, self.peak_bytes)

    @property
    def onchip_peak_bytes(self) -> int | None:
        """Most on-chip memory that the operators had in use at any one time.

        Measured, whereas the `onchip_bytes` of a program is an upper bound: tiles and buffers count
        with their sizes in the run, and buffers only while they are in use. FIFOs do not count.
        None for a run that was not recorded, and where an operator holds tiles whose size has no
        known numeric bound.
        """
        return None if self.events is None else onchip_peak(self.events)

    def timeline(self, bins: int = 100) -> pa.Table:
        """The recorded run over time, as an Arrow table of ``bins`` intervals of equal length.

        Off-chip bandwidth, outstanding and queued requests, on-chip memory, FIFOs, and what units
        do; `docs/timeline.md` defines them, as the metadata of the columns do. A run of fewer
        cycles has a bin for each.

        Raises
        ------
        ArgError
            The run was not recorded, or ``bins`` is not a number from 1 to a million.
        """
        return timeline(self.recorded("timeline"), bins)

    def link_timeline(self, bins: int = 100) -> pa.Table:
        """The load of every link over time, for a recorded run that was placed or on several chips.

        A row for each link that flits passed, or that sent messages between chips, and each of
        ``bins`` intervals of equal length, with the share of its cycles in which the link was busy.
        The ports by which places send and receive count as links.

        Raises
        ------
        ArgError
            The run was not recorded, the program was not placed and is on one chip, or ``bins`` is
            not a number from 1 to a million.
        """
        events = self.recorded("link_timeline")
        if self.carried is None:
            raise ArgError(
                f"result of '{self.program}': link_timeline() is of placed programs and of "
                "programs on several chips; use simulate(..., place=...), or `with st.chip(...)`"
            )
        return link_timeline(events, bins)

    def recorded(self, what: str) -> Events:
        """The recorded events that ``what`` needs; raises ArgError for a run that was not
        recorded."""
        if self.events is None:
            raise ArgError(
                f"{what}: this run of '{self.program}' was not recorded; "
                "use simulate(..., record=True)"
            )
        return self.events

    def why(self) -> Any:
        """What bounds the run and what would help, found by running it again with changes.

        Returns a :class:`~stepsim.explain.Why`, as :func:`stepsim.why` does.

        Raises
        ------
        ArgError
            The result is of a unit network or was pickled, so that it cannot be run again.
        """
        if self.rerun is None:
            raise ArgError(
                f"result of '{self.program}': why() needs the program, which a pickled result and "
                "that of a unit network do not have; use stepsim.why(program, machine)"
            )
        again = self.rerun
        # The room of explanations is above this one.
        explain = importlib.import_module("stepsim.explain").explain
        return explain(again.prepared, again.bindings)

    def to_arrow(self, table: str = "run") -> pa.Table:
        """An Arrow table of the result.

        Parameters
        ----------
        table : "run" for one row with the totals and the provenance as JSON, "units" for the stall
            breakdown or "fifos" for tokens and waits.

        Raises
        ------
        ArgError
            For another name.
        """
        if not isinstance(table, str):
            raise ArgError(f"a result has the tables run, units and fifos; found {shown(table)}")
        if table == "run":
            return self._run_table()
        if table == "units":
            return self.units
        if table == "fifos":
            return self.fifos
        raise ArgError(f"a result has the tables run, units and fifos; found {table!r}")

    def _run_table(self) -> pa.Table:
        known = schemas.RUN_SCHEMA
        row = {name: getattr(self, name) for name in known.names}
        row["outline"] = None if row["outline"] is None else json.dumps(row["outline"])
        row["provenance"] = json.dumps(
            self.provenance, sort_keys=True, default=str, allow_nan=False
        )
        if self.energy is not None:
            time = self.milliseconds
            row |= self.energy.columns(None if time is None else time / 1e3)
            known = schemas.ENERGY_RUN_SCHEMA
        return arrow_table({name: [value] for name, value in row.items()}, known)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def to_pandas(self, table: str = "run") -> Any:
        """The tables of :meth:`to_arrow` as pandas DataFrames; raises ImportError without
        pandas."""
        return self.to_arrow(table).to_pandas()

    @property
    def identity(self) -> dict[str, Any]:
        """The identity of this run: its inputs and its outcome."""
        return {
            "provenance": dict(self.provenance),
            "status": self.status,
            "cycles": self.cycles,
            "engine_steps": self.engine_steps,
        }

    def to_parquet(self, path: str | PathLike[str]) -> None:
        """Write the totals to ``path`` and the other tables next to it.

        ``run.parquet`` gets ``run.units.parquet`` and ``run.fifos.parquet`` next to it, and of a
        placed program ``run.links.parquet``. Every file is complete or absent; a timeline, a
        critical path and links of an earlier run are removed.

        Raises
        ------
        OutputError
            When the files cannot be written; no new file remains.
        """
        tables = {"": self.to_arrow(), "units": self.units, "fifos": self.fifos}
        if self.carried is not None:
            tables["links"] = self.links()
        writing.write_run_tables(path, tables, self.identity)

    def __repr__(self) -> str:
        head = f"Result({self.program!r}: {self.status}, {self.cycles:,} cycles"
        if self.milliseconds is not None:
            head += f" = {self.milliseconds:.4g} ms"
        if self.energy is not None:
            head += f", {self.energy.total:.4g} J"
        network = self.network_summary
        used = self.bandwidth_utilization
        share = "" if used is None else f", {used:.1%} of peak bandwidth"
        left = (
            f", {self.undelivered_tokens:,} undelivered tokens" if self.undelivered_tokens else ""
        )
        return (
            f"{head}, {self.offchip_bytes:,} bytes off chip{share}, {self.flops:,} FLOPs, "
            f"{self.engine_steps:,} steps in {self.wall_seconds:.3g} s{left})"
            + ("" if network is None else f"\n{network}")
            + "".join(f"\nnote: {sentence}" for sentence in self.notes)
        )

    def _repr_html_(self) -> str:
        used = self.bandwidth_utilization
        rows = [
            ("status", self.status),
            ("cycles", f"{self.cycles:,}"),
            ("off-chip traffic", f"{self.offchip_bytes:,} bytes"),
            ("bandwidth utilization", "not measured" if used is None else f"{used:.1%}"),
            ("FLOPs", f"{self.flops:,}"),
            ("engine steps", f"{self.engine_steps:,}"),
            ("wall time", f"{self.wall_seconds:.3g} s"),
        ]
        if self.network_summary is not None:
            rows.append(("network", self.network_summary))
        cells = "".join(
            f"<tr><th style='text-align:left'>{html.escape(k)}</th><td>{html.escape(v)}</td></tr>"
            for k, v in rows
        )
        note = f"<pre>{html.escape(str(self.diagnosis))}</pre>" if self.diagnosis else ""
        note += "".join(f"<p>{html.escape(sentence)}</p>" for sentence in self.notes)
        return f"<table><caption>{html.escape(self.program)}</caption>{cells}</table>{note}"
