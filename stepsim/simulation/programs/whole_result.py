"""The whole result of a run of a laid-out program: its tables, notes, loads and provenance."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from stepsim.deferred import deferred
from stepsim.graph import substitution
from stepsim.simulation.programs.changes import changes_of
from stepsim.simulation.programs.provenance import index_digests, provenance_of
from stepsim.simulation.programs.rerun import Rerun

if TYPE_CHECKING:
    from stepsim.graph import Bindings
    from stepsim.results import Result
    from stepsim.simulation.programs import chip_loads, message_loads
    from stepsim.simulation.programs.on_chip import NetworkLoads
    from stepsim.simulation.programs.prepared import Prepared
    from stepsim.simulation.recording import events
    from stepsim.simulation.running.image_run import ImageRun
else:
    chip_loads = deferred("stepsim.simulation.programs.chip_loads")
    message_loads = deferred("stepsim.simulation.programs.message_loads")
    events = deferred("stepsim.simulation.recording.events")

_NO_LINKS: Final = (
    "energies count nothing for the links between chips, of which the machine states no "
    "energy.chip_link_pj_per_byte"
)


def result_of(prepared: Prepared, done: ImageRun, indices: Bindings, seed: int | None) -> Result:
    """The result of a run with these indices."""
    loads = prepared.loads(done)
    if done.record is not None:
        symbols = substitution(prepared.program, indices)
        found = events.events_of(done, prepared.wiring, prepared.timing, symbols)
        if loads is not None:
            found = loads.added_to(found, done.record)
        done = replace(done, events=found)
    about = {
        "program_hash": prepared.program_hash,
        "flop_weights": dict(prepared.program.flop_weights),
        "bindings": index_digests(indices),
        "fifo_depth": prepared.fifo_depth,
        "fifo_depth_from": prepared.fifo_depth_from,
        "seed": seed,
        **changes_of(prepared),
    }
    provenance = provenance_of(done.totals.image_hash, prepared.machine, about)
    made = done.result(prepared.program.name, provenance)
    notes, fit = prepared.notes, prepared.fit
    if fit is not None and (unknown := fit.unknown({**prepared.sizes, **indices})):
        notes += (unknown,)
    carried: NetworkLoads | chip_loads.ChipLoads | None = None
    if loads is not None and isinstance(loads, message_loads.MessageLoads):
        carried = chip_loads.ChipLoads(prepared, loads, done, indices)
    else:
        carried = loads
    return replace(made, notes=notes, rerun=Rerun(prepared, indices), carried=carried)


def notes_of(prepared: Prepared) -> tuple[str, ...]:
    """Remarks on its runs, a sentence each."""
    other = "" if prepared.sized_for is None else prepared.sized_for.note(prepared.machine)
    assumed = () if prepared.timing.dram is None else prepared.address_map.assumptions
    notes = prepared.machine.notes
    if prepared.placement is not None:
        # That of the network is for programs that are not placed.
        notes = tuple(note for note in notes if note != prepared.placement.network.note)
    if prepared.crossing is not None and prepared.machine.chips is not None:
        # That of the chips is for programs on one of them.
        notes = tuple(note for note in notes if note != prepared.machine.chips.note)
        energy = prepared.machine.energy
        if energy is not None and energy.chip_link_pj_per_byte is None:
            notes += (_NO_LINKS,)
    return (*notes, *((other,) if other else ()), *assumed)
