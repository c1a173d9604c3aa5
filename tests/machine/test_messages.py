"""Every way to get a machine wrong, and what the user is told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from stepsim import hardware
from stepsim.errors import MachineError, StepSimError
from stepsim.machine import Machine, list_machines, load_machine, parse_overrides
from stepsim.machine.loading import known_keys

GOOD = """\
name: mine
hbm:
  request_bytes: 64
  channels: 4
  latency: 2
  interval: 2
  startup: 14
onchip:
  bytes_per_cycle: 128
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def message_of(folder: Path, text: str) -> str:
    """The error of a file, with the path of the file shortened to FILE."""
    path = write(folder, text)
    with pytest.raises(MachineError) as caught:
        load_machine(path)
    return str(caught.value).replace(str(path), "FILE")


def test_a_short_file_gets_the_defaults(tmp_path: Path) -> None:
    machine = load_machine(write(tmp_path, GOOD))
    assert machine.hbm.model == "interleaved"
    assert machine.fifo_depth == 1024
    assert machine.closure_slack == 0
    assert machine.peak_bandwidth == 128


def test_a_path_may_be_given_as_text_or_without_suffix(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "plain").write_text(GOOD)
    monkeypatch.chdir(tmp_path)
    assert load_machine("plain") == load_machine(str(tmp_path / "plain"))


CASES = {
    "empty": (
        "",
        "machine file FILE: expected a mapping with the keys name, description, model, hbm, "
        "onchip, fifo, closure_slack, costs, clock_ghz, device, compute, energy, chips, noc, found "
        "nothing. Start from 'stepsim machines --show sda-1024'.",
    ),
    "list": (
        "- 1\n",
        "machine file FILE: expected a mapping with the keys name, description, model, hbm, "
        "onchip, fifo, closure_slack, costs, clock_ghz, device, compute, energy, chips, noc, found "
        "a list. Start from 'stepsim machines --show sda-1024'.",
    ),
    "not YAML": (
        "name: [1\n",
        "machine file FILE:2:1: not valid YAML: while parsing a flow sequence, expected ',' or "
        "']', but got '<stream end>'. Write 'key: value' lines, indented by spaces. "
        "See 'stepsim machines --show sda-1024'.",
    ),
    "duplicate nested key": (
        GOOD.replace("  latency: 2\n", "  latency: 2\n  channels: 8\n"),
        "machine file FILE:6:3: key 'hbm.channels' is given twice, first on line 4; "
        "remove one of them",
    ),
    "unknown key, near": (
        GOOD + "closure_slak: 1\n",
        "machine file FILE, line 10, closure_slak: unknown key 'closure_slak'; did you mean "
        "'closure_slack'? Known here: chips, clock_ghz, closure_slack, compute, costs, "
        "description, device, energy, fifo, hbm, model, name, noc, onchip",
    ),
    "unknown key, far": (
        GOOD + "color: red\n",
        "machine file FILE, line 10, color: unknown key 'color'. "
        "Known here: chips, clock_ghz, closure_slack, compute, costs, description, device, energy, "
        "fifo, hbm, model, name, noc, onchip",
    ),
    "missing key": (
        GOOD.replace("  interval: 2\n", ""),
        "machine file FILE, hbm.interval: missing; expected an integer from 1 to 1048576 "
        "(cycles between the starts of two requests on the same channel)",
    ),
    "missing section": (
        GOOD[: GOOD.index("onchip")],
        "machine file FILE, onchip: missing; expected a mapping with the keys bytes_per_cycle, "
        "capacity_bytes",
    ),
    "section is a number": (
        GOOD.replace("onchip:\n  bytes_per_cycle: 128", "onchip: 128"),
        "machine file FILE, line 8, onchip: expected a mapping with the keys bytes_per_cycle, "
        "capacity_bytes, found 128",
    ),
    "zero interval": (
        GOOD.replace("interval: 2", "interval: 0"),
        "machine file FILE, line 6, hbm.interval: expected an integer from 1 to 1048576 "
        "(cycles between the starts of two requests on the same channel), found 0",
    ),
    "negative latency": (
        GOOD.replace("latency: 2", "latency: -1"),
        "machine file FILE, line 5, hbm.latency: expected an integer from 0 to 1048576 "
        "(cycles from service to response of one request), found -1",
    ),
    "quoted number": (
        GOOD.replace("channels: 4", "channels: '4'"),
        "machine file FILE, line 4, hbm.channels: expected an integer from 1 to 65536 "
        "(number of independent channels), found the text '4'",
    ),
    "fraction": (
        GOOD.replace("channels: 4", "channels: 4.0"),
        "machine file FILE, line 4, hbm.channels: expected an integer from 1 to 65536 "
        "(number of independent channels), found 4.0",
    ),
    "truth value": (
        GOOD.replace("channels: 4", "channels: yes"),
        "machine file FILE, line 4, hbm.channels: expected an integer from 1 to 65536 "
        "(number of independent channels), found true",
    ),
    "null": (
        GOOD.replace("channels: 4", "channels:"),
        "machine file FILE, line 4, hbm.channels: expected an integer from 1 to 65536 "
        "(number of independent channels), found null",
    ),
    "list as value": (
        GOOD.replace("channels: 4", "channels: [4]"),
        "machine file FILE, line 4, hbm.channels: expected an integer from 1 to 65536 "
        "(number of independent channels), found the list [4]",
    ),
    "mapping as value": (
        GOOD.replace("name: mine", "name: {a: 1}"),
        "machine file FILE, line 1, name: expected a non-empty text "
        "(short name, shown in results), found a mapping",
    ),
    "empty name": (
        GOOD.replace("name: mine", "name: ''"),
        "machine file FILE, line 1, name: expected a non-empty text "
        "(short name, shown in results), found the text ''",
    ),
    "memory model that is no text": (
        GOOD.replace("  channels: 4", "  model: 3\n  channels: 4"),
        "machine file FILE, line 4, hbm.model: expected a non-empty text "
        "(memory model; 'interleaved' sends the requests of every operator to the channels in "
        "turn, 'published' is that of the STeP paper, 'uncontended' gives every operator "
        "a private memory, 'dram' has banks, rows, queues and addresses; plugins may add "
        "others), found 3",
    ),
    "zero FIFO depth": (
        GOOD + "fifo:\n  depth: 0\n",
        "machine file FILE, line 11, fifo.depth: expected an integer from 1 to 1048576 or null "
        "(tokens a FIFO holds when a run gives no depth; null leaves it to the program, else "
        "1024), found 0",
    ),
    "slack out of range": (
        GOOD + "closure_slack: 3\n",
        "machine file FILE, line 10, closure_slack: expected an integer from 0 to 2 "
        "(cycles by which the end of a stream is noticed earlier; 0 is canonical), found 3",
    ),
}


@pytest.mark.parametrize(("text", "expected"), CASES.values(), ids=CASES)
def test_file_messages(tmp_path: Path, text: str, expected: str) -> None:
    assert message_of(tmp_path, text) == expected


def test_all_problems_are_listed_in_file_order(tmp_path: Path) -> None:
    text = GOOD.replace("startup: 14", "startup: x").replace("channels: 4", "chanels: 4")
    assert message_of(tmp_path, text).splitlines() == [
        "machine file FILE: 3 problems",
        "  hbm.channels: missing; expected an integer from 1 to 65536 "
        "(number of independent channels)",
        "  line 4, hbm.chanels: unknown key 'chanels'; did you mean 'channels'? "
        "Known here: addresses, arbiter, capacity_bytes, channels, dram, interval, latency, model, "
        "port, request_bytes, startup",
        "  line 7, hbm.startup: expected an integer from 0 to 1048576 "
        "(cycles added to the latency of every request), found the text 'x'",
    ]


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        (
            "sda1024",
            "unknown machine 'sda1024'; did you mean 'sda-1024'? "
            f"Known machines: {', '.join(list_machines())}; or give the path of a YAML file.",
        ),
        (
            "gpu",
            "unknown machine 'gpu'. "
            f"Known machines: {', '.join(list_machines())}; or give the path of a YAML file.",
        ),
        *(
            (
                name,
                f"machine '{name}' belongs to the hardware level; use the functions of "
                f"st.hardware, as in st.hardware.simulate(program, '{name}'), or --level hardware "
                "on the command line",
            )
            for name in hardware.list_machines()
        ),
        (
            "nowhere.yaml",
            "machine file nowhere.yaml: no such file. "
            f"Known machines: {', '.join(list_machines())}.",
        ),
        ("/", "machine file /: cannot be read: Is a directory; name a file that can be read"),
    ],
)
def test_machine_not_found(machine: str, expected: str) -> None:
    with pytest.raises(MachineError) as caught:
        load_machine(machine)
    assert str(caught.value) == expected


def test_machine_error_is_a_stepsim_error() -> None:
    assert issubclass(MachineError, StepSimError)


@pytest.mark.parametrize("base", ["sda-1024", Machine(**load_machine().to_dict())])
def test_overrides_change_only_what_they_name(base: str | Machine) -> None:
    overrides = parse_overrides(["hbm.channels=16", " fifo.depth = 2 "])
    assert overrides == {"hbm.channels": "16", "fifo.depth": "2"}
    machine = load_machine(base, overrides)
    before = load_machine("sda-1024").to_dict()
    before["hbm"]["channels"] = 16
    before["fifo"]["depth"] = 2
    assert machine.to_dict() == before
    assert load_machine("sda-1024").hbm.channels == 32


def test_override_may_fill_a_section_that_the_file_leaves_out(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    assert load_machine(path, {"fifo.depth": "7"}).fifo_depth == 7
    assert load_machine(path, {"fifo.depth": None}).fifo_depth == 1024


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        (
            ["hbm.channels"],
            "machine override 'hbm.channels': expected key=value, for example hbm.channels=16",
        ),
        (
            ["hbm.channels="],
            "machine override 'hbm.channels=': expected key=value, for example hbm.channels=16",
        ),
        (
            ["hbm.channels=1", "hbm.channels=2"],
            "machine override 'hbm.channels' is given twice (1 and 2); keep one",
        ),
    ],
)
def test_malformed_overrides(items: list[str], expected: str) -> None:
    with pytest.raises(MachineError) as caught:
        parse_overrides(items)
    assert str(caught.value) == expected


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("hbm.chanels", "; did you mean 'hbm.channels'?"),
        ("channels", "; did you mean 'hbm.channels'?"),
        ("bytes_per_cycl", "; did you mean 'onchip.bytes_per_cycle'?"),
        ("colour", "."),
        ("hbm", "."),
    ],
)
def test_unknown_override_key(key: str, hint: str) -> None:
    known = known_keys()
    assert {"name", "hbm.model", "hbm.dram.nRCDRD", "energy.flop_pj_i4"} <= set(known)
    expected = f"machine override: unknown key '{key}'{hint} Known: {', '.join(known)}"
    with pytest.raises(MachineError) as caught:
        parse_overrides([f"{key}=1"])
    assert str(caught.value) == expected
    with pytest.raises(MachineError) as caught:
        load_machine("sda-1024", {key: 1})
    assert str(caught.value) == expected


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        (
            "hbm.channels",
            "many",
            "machine 'sda-hdl' with hbm.channels=many, hbm.channels: expected an integer from 1 "
            "to 65536 (number of independent channels), found the text 'many'",
        ),
        (
            "hbm.interval",
            "0",
            "machine 'sda-hdl' with hbm.interval=0, hbm.interval: expected an integer from 1 to "
            "1048576 (cycles between the starts of two requests on the same channel), found 0",
        ),
        (
            "hbm.channels",
            "[1",
            "machine override 'hbm.channels': '[1', column 3: not valid YAML: while parsing a flow "
            "sequence, expected ',' or ']', but got '<stream end>'. "
            "Put quotes around it if it is meant as text.",
        ),
    ],
)
def test_override_values(key: str, value: str, expected: str) -> None:
    with pytest.raises(MachineError) as caught:
        load_machine("sda-hdl", {key: value})
    assert str(caught.value) == expected


def test_override_of_a_file_that_is_no_mapping(tmp_path: Path) -> None:
    path = write(tmp_path, "onchip: 3\n")
    with pytest.raises(MachineError, match="onchip: expected a mapping"):
        load_machine(path, {"onchip.bytes_per_cycle": 64})
    path = write(tmp_path, "- 3\n")
    with pytest.raises(MachineError, match="found a list"):
        load_machine(path, {"onchip.bytes_per_cycle": 64})


def test_an_array_as_memory_model_is_refused() -> None:
    with pytest.raises(MachineError, match=r"hbm\.model: expected a non-empty text"):
        load_machine("sda-1024", {"hbm.model": np.zeros(3)})
