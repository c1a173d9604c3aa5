"""Every engine by name: what a wheel carries, and what is compiled ahead of time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from stepsim.kernels.build.entry_point import EntryPoint
from stepsim.kernels.dram.traffic import run_traffic
from stepsim.kernels.engine import run
from stepsim.kernels.engines import engine_of, recorded_engine_of
from stepsim.kernels.hardware.clock import run_hardware
from stepsim.kernels.memory.dispatch import ALL_MODELS
from stepsim.kernels.noc.annealing import anneal
from stepsim.kernels.noc.chips.loop import run_chips
from stepsim.kernels.noc.link import run_link
from stepsim.kernels.noc.npe import run_steps
from stepsim.kernels.noc.transfers import run_ports, run_shares
from stepsim.kernels.recording.recorded import run_recorded
from stepsim.kernels.recording.retiming import retime
from stepsim.kernels.serving.expert_draws import look_up_experts
from stepsim.kernels.serving.loop import run_service

_OWN: Final = [name for name, model in ALL_MODELS.items() if model.apart]

ENGINES: Final[Mapping[str, tuple[EntryPoint, ...]]] = {
    "runs": (run,),
    "recorded": (run_recorded, retime),
    **{name: (engine_of(name),) for name in _OWN},
    **{f"recorded-{name}": (recorded_engine_of(name),) for name in _OWN},
    "requests": (run_traffic,),
    "chips": (run_chips,),
    "hardware": (run_hardware,),
    "routing": (look_up_experts,),
    "serving": (run_service,),
    "noc": (run_link, run_ports, run_shares, run_steps),
    "placement": (anneal,),
}
"""Runs on common memory models, the same recorded, each memory model with an engine of its own,
the DRAM alone (``st.dram``), the hardware level, routing and scheduling of a service, networks
alone (``st.noc``), on a chip and of chips, and the search of placements."""
