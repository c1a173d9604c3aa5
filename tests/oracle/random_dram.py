"""Random memories of the model ``dram`` for random networks: a DRAM, a path, places of tiles."""

from __future__ import annotations

from dataclasses import replace
from math import ceil, prod

from hypothesis import strategies as st

from stepsim.kernels.dram.table import DramSpec
from stepsim.kernels.memory.dram_table import ARBITERS, DramTiming, FrontEnd, PortAccess
from stepsim.lowering.network import Network, UnitSpec
from tests.oracle.memory import READERS, WRITERS

__all__ = ["HBM2", "drams", "with_dram"]

HBM2 = DramSpec(
    channels=8, pseudo_channels=2, bank_groups=4, banks=2, rows=16384, columns=32, access_bytes=16,
    mapper=0, channel_act_act=2, channel_act_pre=2, pseudo_act_act=2, pseudo_act_window=15,
    pseudo_rd_rd=4, pseudo_rd_wr=11, pseudo_wr_rd=9, pseudo_wr_wr=4, group_act_act=3,
    group_rd_rd=2, group_wr_rd=10, group_wr_wr=2, bank_act_act=19, bank_act_pre=17, bank_act_rd=7,
    bank_act_wr=7, bank_pre_act=7, bank_rd_pre=3, bank_wr_pre=14, read_delay=11, read_entries=33,
    write_entries=33, high=26, low=6,
)  # fmt: skip
"""The DRAM of the hardware that the STeP paper was validated with."""


@st.composite
def drams(draw: st.DrawFn, request_bytes: int) -> DramTiming:
    """A DRAM with few or many channels and short or long queues, and a path to it."""
    access = draw(st.sampled_from([size for size in (16, 32, 64) if size <= request_bytes]))
    entries = draw(st.sampled_from([1, 2, 5, 33]))
    high = draw(st.integers(1, entries))
    spec = replace(
        HBM2,
        channels=draw(st.sampled_from([1, 2, 8])),
        access_bytes=access,
        read_entries=draw(st.sampled_from([1, 3, 33])),
        write_entries=entries,
        high=high,
        low=draw(st.integers(0, high - 1)),
        mapper=draw(st.integers(0, 2)),
    )
    clocks, cycles = draw(st.sampled_from([(1, 1), (8, 5), (2, 3), (5, 1), (1, 4)]))
    lock_step = draw(st.booleans())
    front = FrontEnd(
        request_bytes=request_bytes,
        parts=1 if lock_step else request_bytes // access,
        outstanding=draw(st.sampled_from([1, 2, 7, 64])),
        request_latency=draw(st.integers(1, 5)),
        response_latency=draw(st.sampled_from([0, 1, 7])),
        arbiter=draw(st.integers(0, len(ARBITERS) - 1)),
        first=draw(st.integers(0, 3)),
        width=draw(st.sampled_from([1, 1, 2, 4])),
        head_of_line=draw(st.booleans()),
        clocks=clocks,
        cycles=cycles,
    )
    return DramTiming(spec, front)


@st.composite
def _accesses(draw: st.DrawFn, unit: UnitSpec, number: int) -> PortAccess:
    rows, cols = unit.params["tile"]
    row_bytes = max(1, ceil(cols * unit.params.get("bpe", 2)))
    layout = draw(st.sampled_from(["row_major", "tiled", "stream"]))
    base = draw(st.sampled_from([0, 0, 4096, 65536, 1 << 20, 72])) * draw(st.integers(0, 3))
    shared = {
        "base": base, "write": unit.op in WRITERS, "random": unit.op.startswith("Random"),
        "mark": draw(st.sampled_from([0, number])) << 44,
    }  # fmt: skip
    if layout == "row_major":
        columns = draw(st.integers(1, 3))
        extra = draw(st.sampled_from([0, 0, 16, 100]))
        access = PortAccess(
            rows=max(1, rows), columns=columns, pitch=columns * row_bytes + extra,
            row_bytes=row_bytes, extent=draw(st.integers(1, 9)), **shared,
        )  # fmt: skip
    else:
        size = max(1, rows) * row_bytes + draw(st.sampled_from([0, 4]))
        access = PortAccess(
            rows=1, columns=1, pitch=size, row_bytes=size, stream=layout == "stream",
            extent=draw(st.integers(1, 9)), **shared,
        )  # fmt: skip
    if unit.op not in ("OffChipLoad", "DynOffChipLoad"):
        if layout == "row_major" and draw(st.booleans()):
            block = tuple(draw(st.integers(1, 3)) for _ in range(4))
            strides = tuple(draw(st.integers(0, 4)) for _ in block)
            access = access._replace(dims=block, strides=strides)
        return access
    view = tuple(unit.params["view"])
    if layout != "stream":
        strides = tuple(draw(st.integers(0, 4)) for _ in view)
        access = access._replace(dims=view, strides=strides)
    if unit.op == "OffChipLoad":
        access = access._replace(ahead=draw(st.sampled_from([0, 1, 5, 64])), total=prod(view))
    return access


@st.composite
def with_dram(draw: st.DrawFn, networks: st.SearchStrategy[Network]) -> Network:
    """The networks with a DRAM as their memory."""
    network = draw(networks)
    dram = draw(drams(draw(st.sampled_from([16, 64, 512]))))
    timing = replace(
        network.timing, memory_model="dram", request_bytes=dram.front.request_bytes, dram=dram,
        outstanding=None,  # the DRAM has bounds of its own
    )  # fmt: skip
    ports = [unit for unit in network.units if unit.op in READERS | WRITERS]
    accesses = {unit.name: draw(_accesses(unit, i)) for i, unit in enumerate(ports)}
    return replace(network, timing=timing, accesses=accesses)
