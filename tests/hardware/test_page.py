"""The table of keys on docs/hardware.md has the values of the machine."""

from __future__ import annotations

import re

import stepsim as st
from tests.pages import DOCS

PAGE = (DOCS / "hardware.md").read_text(encoding="utf-8")


def test_every_key_has_its_default() -> None:
    rows = re.findall(r"^\| (`[a-z_.`, ]+`) \| ([^|]+) \| [^|]+ \|$", PAGE, re.MULTILINE)
    shown: dict[str, str] = {}
    for names, values in rows:
        first, *more = re.findall(r"`([a-z_.]+)`", names)
        section = first.rpartition(".")[0]
        keys = [first, *(name if name[0] != "." else section + name for name in more)]
        shown |= dict(zip(keys, values.split(", "), strict=True))
    found: dict[str, str] = {}
    for key, value in st.hardware.Machine().to_dict().items():
        if key not in ("name", "description", "dram"):
            inner = value.items() if isinstance(value, dict) else [("", value)]
            found |= {f"{key}.{name}".rstrip("."): str(one) for name, one in inner}
    assert shown == {**found, "dram": "`hbm2-hdl`", "clock_ghz": "none"}


def test_the_numbers_of_the_rules_are_those_of_the_machine() -> None:
    machine = st.hardware.Machine()
    assert machine.dram is not None
    for text in (
        f"Buffers work from cycle {machine.buffer.wake_cycle} on",
        f"an admission of {machine.memory.in_flight} reads in flight",
        f"two FIFOs of {machine.memory.first_depth} for each port",
        f"Entries are {machine.tile_bytes + machine.stop_bytes} bytes",
        f"FIFOs hold {machine.fifo_depth} messages",
        f"{machine.buffer.sets} sets of {machine.buffer.frames} tiles",
        f"for `hdl` {machine.peak_bandwidth:g} bytes per cycle",
    ):
        assert text in PAGE
