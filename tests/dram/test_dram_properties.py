"""The kernels against the plain oracle: random traffic, random descriptions, idle stretches."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from stepsim.dram import simulate, spec_of
from stepsim.kernels.dram.address import bank_of, column_of, locate, row_of
from stepsim.kernels.dram.channel import issued_tag, next_clock, returned, send, tick
from stepsim.kernels.dram.table import DramSpec, dram_words
from stepsim.machine import Dram
from stepsim.machine.section import keys
from tests.oracle.dram import Dram as Oracle, fields_of
from tests.property_profile import profile

_KINDS = ("", "ACT", "PRE", "RD", "WR", "REF")


def _random_spec(rng: random.Random) -> DramSpec:
    """A description within the rules, with short queues and all distances of its own."""
    spec = spec_of("hbm2-hdl")
    changed = {
        name: rng.randint(1, 14)
        for name in DramSpec.__dataclass_fields__
        if name.startswith(("channel_act", "pseudo_act", "pseudo_rd", "pseudo_wr", "group_"))
        or name in ("bank_act_rd", "bank_act_wr", "bank_pre_act", "bank_rd_pre", "bank_wr_pre")
    }
    spec = replace(spec, **changed)
    row = rng.randint(7, 20)
    writes = rng.randint(2, 20)
    high = rng.randint(1, writes)
    refreshes = rng.random() < 0.3
    return replace(
        spec,
        channels=rng.choice((1, 2, 4)),
        pseudo_channels=rng.choice((1, 2)),
        bank_groups=rng.choice((1, 2, 4)),
        banks=rng.choice((1, 2, 4)),
        rows=rng.choice((2, 16, 64)),
        columns=rng.choice((4, 8, 32)),
        access_bytes=rng.choice((16, 32)),
        mapper=rng.randrange(3),
        bank_act_pre=row,
        bank_act_act=row + rng.randint(0, spec.bank_pre_act),
        read_delay=rng.randint(1, 15),
        read_entries=rng.randint(1, 20),
        write_entries=writes,
        high=high,
        low=rng.randint(0, high - 1),
        refresh_interval=rng.randint(150, 300) if refreshes else 0,
        refresh_cycles=rng.randint(10, 60) if refreshes else 0,
    )


def _compare(rng: random.Random, spec: DramSpec, cycles: int, skip: bool) -> int:
    """Random traffic with pauses on both; how many commands there were."""
    oracle, words = Oracle(spec), dram_words(spec, 2000)
    footprint = rng.choice((256, 2048, 1 << 14, 1 << 20))
    rate, writes = rng.choice((0.05, 0.3, 1, 3)), rng.choice((0, 0.1, 0.5, 0.9, 1))
    pauses = rng.random() < 0.5
    tag = 0
    commands, returns, expected_returns = [], [], []
    for cycle in range(cycles):
        sent = 0 if pauses and cycle // 60 % 2 else int(rate) + (rng.random() < rate % 1)
        for _ in range(sent):
            address = rng.randrange(footprint) // spec.access_bytes * spec.access_bytes
            write = int(rng.random() < writes)
            channel = int(locate(words, address))
            accepted = send(words, channel, cycle, address, write, tag)
            assert bool(accepted) == oracle.send(cycle, address, write, tag)
            tag += 1
        clock = cycle + 1
        expected_returns += [(clock, one) for one in oracle.tick(clock)]
        for channel in range(spec.channels):
            if skip and next_clock(words, channel) > clock:
                continue
            back = int(returned(words, channel, clock))
            if back >= 0:
                returns.append((clock, back))
            kind = _KINDS[int(tick(words, channel, clock))]
            # Those of an idle channel are made up for later.
            if kind not in ("", "REF"):
                commands.append((clock, channel, kind, int(issued_tag(words, channel))))
    assert returns == expected_returns
    expected = [(one.clock, one.channel, one.kind, one.tag) for one in oracle.commands]
    assert commands == [one for one in expected if one[2] != "REF"]
    return len(commands)


@given(seed=st.integers(0, 1 << 32), skip=st.booleans())
@profile(4)
def test_random_traffic_on_random_descriptions(seed: int, skip: bool) -> None:
    rng = random.Random(seed)
    _compare(rng, _random_spec(rng), 200, skip)


@pytest.mark.long
def test_all_presets_and_many_descriptions() -> None:
    done = 0
    for seed in range(12):
        rng = random.Random(seed)
        done += _compare(rng, _random_spec(rng), 400, skip=seed % 2 == 0)
    assert done > 1000


@pytest.mark.parametrize("preset", ["hbm2-hdl", "hbm1", "hbm3", "ddr4-3200", "lpddr5"])
def test_presets_against_the_oracle(preset: str) -> None:
    spec = spec_of(Dram(preset=preset, refresh="all-bank", nREFI=170, nRFC=50))
    assert _compare(random.Random(preset), spec, 150, skip=True) > 0


@given(address=st.integers(0, (1 << 40) - 1), seed=st.integers(0, 1000))
@profile(60)
def test_fields_of_addresses(address: int, seed: int) -> None:
    spec = _random_spec(random.Random(seed))
    words = dram_words(spec)
    expected = fields_of(spec, address)
    bank = (expected["pseudo"] * spec.bank_groups + expected["group"]) * spec.banks
    assert int(locate(words, address)) == expected["channel"]
    assert int(bank_of(words, address)) == bank + expected["bank"]
    assert int(row_of(words, address)) == expected["row"]
    assert int(column_of(words, address)) == expected["column"]


_PLAIN = {"channels": 2, "refresh": "all-bank", "nREFI": 400, "nRFC": 30}

# Values that matter only from another one on are raised beyond it.
_OTHER_VALUES: dict[str, Any] = {
    "preset": "hbm1", "channels": 4, "pseudo_channels": 1, "bank_groups": 2, "banks": 4,
    "rows": 8, "columns": 16, "access_bytes": 32, "mapper": "MOP4CLXOR", "refresh": "off",
    "read_queue": 20, "write_queue": 27, "high_watermark": 20, "low_watermark": 10, "nACT": 3,
    "nBL": 5, "nCL": 8, "nCWL": 3, "nRCDRD": 8, "nRCDWR": 8, "nRP": 8, "nRAS": 19, "nRC": 30,
    "nWR": 9, "nRTPS": 9, "nRTPL": 9, "nCCDS": 5, "nCCDL": 6, "nRRDS": 3, "nRRDL": 6, "nWTRS": 4,
    "nWTRL": 6, "nFAW": 20, "nRFC": 40, "nREFI": 300,
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", _OTHER_VALUES)
def test_every_parameter_matters(name: str) -> None:
    generator = np.random.default_rng(1)
    address = np.concatenate(
        [np.arange(1500) * 16, generator.integers(0, 1 << 28, 1500) // 16 * 16]
    )
    write = generator.random(3000) < 0.6
    streams = np.arange(3000) // 750

    def stamps(dram: Dram) -> list[list[int]]:
        run = simulate(address, write, streams=streams, spec=dram)
        return [run.accepted.tolist(), run.command.tolist(), run.done.tolist()]

    plain = {**_PLAIN, "nCCDL": 6} if name == "nCCDS" else _PLAIN
    other = {**plain, name: _OTHER_VALUES[name]}
    if name == "refresh":
        del other["nREFI"], other["nRFC"]
    assert stamps(Dram(**plain)) != stamps(Dram(**other))


def test_parameters_are_all_varied() -> None:
    assert set(_OTHER_VALUES) == set(keys(Dram)) - {"clock_ghz"}  # that of a machine's cycle


def test_a_refresh_costs_its_share() -> None:
    addresses = np.arange(20_000, dtype=np.int64) * 16
    plain = simulate(addresses, spec="hbm2-hdl")
    refreshed = simulate(addresses, spec=Dram(refresh="all-bank", nREFI=390, nRFC=40))
    assert plain.counts["REF"] == 0
    assert refreshed.counts["REF"] > 8 * 10
    assert 1.05 < refreshed.cycles / plain.cycles < 1.35
