"""What a check says of a program that is as before, slower, faster, on another machine or stuck."""

from __future__ import annotations

import json

import pytest

import stepsim as st
from stepsim.errors import ArgError
from stepsim.pytest_plugin import METRICS, Cycles
from tests.pytest_plugin.conftest import Project, failure
from tests.pytest_plugin.programs import linear, stuck

pytest_plugins = "pytester"

CHECK = "def test_layer(cycles):\n    cycles.check({})\n"


@pytest.mark.slow
def test_a_missing_baseline_fails_and_tells_how_to_make_it(project: Project) -> None:
    project.write(CHECK.format("linear()"))
    text = failure(project.run())
    assert "no baseline of 'linear' for test_layer in test_layer.cycles.json" in text
    assert "cycles 896, offchip_bytes 49,152, onchip_bytes" in text
    assert "pytest test_layer.py --update-cycles, and commit the file" in text
    assert not project.file().exists()
    project.update()
    assert project.run().ret == 0
    entry = project.baselines()["test_layer"]["linear"]
    run = st.simulate(linear())
    assert [entry[name] for name in METRICS] == [
        run.cycles, run.offchip_bytes, int(linear().metrics().on_chip_memory), run.flops,
    ]  # fmt: skip


def test_a_slower_program_is_reported_with_the_stalls_that_explain_it(project: Project) -> None:
    project.write(CHECK.format("linear()"))
    project.update()
    project.write(CHECK.format("linear(compute=512)"))
    done = project.run()
    text = failure(done)
    assert "linear on sda-1024: slower than its baseline in test_layer.cycles.json" in text
    rows = {line.split("  ")[0]: line.split() for line in text.splitlines()}
    assert rows["cycles"] == ["cycles", "896", "1,280", "+42.86%", "0"]
    assert rows["off-chip bytes"][-2:] == ["equal", "0"]
    assert "the same as in the baseline: bindings, machine, FIFO depth, plugins, timing" in text
    causes, _, stalls = text.partition("where the cycles went")
    assert "program: default compute_bw 1024 -> 512\n" in causes
    assert "matmul: compute_bw 1024 -> 512\n" in causes
    first, second = stalls.splitlines()[2:4]
    assert first.split() == ["matmul", "(BinaryMap)", "work", "640", "1,024", "+384"]
    assert second.startswith("linear_store (OffChipStore)")
    # The user sees the line of the test, not those of the plugin.
    assert "test_layer.py:6: CyclesCheckFailed" in done.stdout.str()
    assert "guard.py:" not in done.stdout.str()


def test_depths_of_single_fifos_are_part_of_the_baseline(project: Project) -> None:
    program = linear(rows=512)
    fifos = st.simulate(program).fifos["name"].to_pylist()
    deep, file = dict.fromkeys(fifos, 8), project.file().with_name("depths.yaml")
    st.size_fifos(program).save(file)
    project.write(CHECK.format(f"linear(rows=512), fifo_depth={deep}"))
    project.update()
    assert project.baselines()["test_layer"]["linear"]["fifo_depths"] == deep
    assert project.run().ret == 0
    shallow = dict.fromkeys(fifos, 1) | {fifos[-1]: None}
    project.write(CHECK.format(f"linear(rows=512), fifo_depth={shallow}"))
    text = failure(project.run())
    assert "FIFO depth: flatten#1 8 -> 1; flatten#1>0 8 -> 1; " in text
    assert f"{fifos[-1]} 8 -> unbounded" in text
    project.write(CHECK.format(f"linear(rows=512), fifo_depth={str(file)!r}"))
    project.update()
    sized = project.baselines()["test_layer"]["linear"]
    assert sized["fifo_depths"].keys() == set(fifos)
    assert sized["cycles"] == st.simulate(program, fifo_depth=file).cycles


def test_own_work_comes_before_the_waits_that_follow_from_it(project: Project) -> None:
    project.write(CHECK.format("linear()"))
    project.update()
    project.write(CHECK.format("linear(rows=512, compute=512)"))
    _, _, stalls = failure(project.run()).partition("where the cycles went")
    rows = [line.split() for line in stalls.splitlines()[2:14]]
    changes = [(row[2] in ("work", "memory"), abs(int(row[-1].replace(",", "")))) for row in rows]
    small = max(size for _, size in changes) / 100
    ranks = [(not own or size < small, -size) for own, size in changes]
    assert ranks == sorted(ranks)


def test_a_faster_program_fails_until_it_is_recorded(project: Project) -> None:
    project.write(CHECK.format("linear(compute=512)"))
    project.update()
    project.write(CHECK.format("linear(compute=1024)"))
    text = failure(project.run())
    assert "faster than its baseline" in text
    assert "to keep what was gained, record it: pytest test_layer.py --update-cycles" in text
    project.write(CHECK.format("linear(compute=1024), allow_less=True"))
    done = project.run()
    assert done.ret == 0
    done.stdout.fnmatch_lines(["*test_layer: linear on sda-1024 is faster than its baseline; *"])
    project.write(CHECK.format("linear(tile=32), allow_less=True"))  # more on-chip memory
    assert "on-chip bytes changed beyond the baseline" in failure(project.run())


def test_another_machine_is_reported_apart_from_another_program(project: Project) -> None:
    project.write(CHECK.format("linear()"))
    project.update()
    changed = 'linear(), st.load_machine("sda-1024", {"hbm.channels": 1})'
    project.write(CHECK.format(changed))
    text = failure(project.run())
    assert "machine: hbm.channels 32 -> 1" in text
    assert "the same as in the baseline: program, bindings, FIFO depth, plugins, timing" in text
    renamed = 'linear(), st.load_machine("sda-1024", {"name": "mine", "description": "other"})'
    project.write(CHECK.format(renamed))
    assert project.run().ret == 0


def test_depth_and_routing_are_reported_apart(project: Project) -> None:
    project.write(
        "def program(second):\n"
        "    with st.Program('routed', compute_bw=1) as made:\n"
        "        table = st.routing(st.spec(8, 1), experts=2)\n"
        "        x = st.linear_load(st.spec(8, 64), tile=(1, 64)).flatten(0, 1)\n"
        "        for part in st.partition(x, table.multihot()):\n"
        "            part.map(st.fn.silu).consume()\n"
        "    return made, {table: [[0]] * 4 + [[second]] * 4}\n"
        "def test_layer(cycles, second, depth):\n"
        "    made, bindings = program(second)\n"
        "    cycles.check(made, bindings=bindings, fifo_depth=depth)\n"
    )
    conftest = (
        "import pytest\n"
        "def pytest_addoption(parser):\n"
        "    parser.addoption('--second', type=int)\n"
        "    parser.addoption('--depth', type=int)\n"
        "@pytest.fixture\n"
        "def second(request): return request.config.getoption('second')\n"
        "@pytest.fixture\n"
        "def depth(request): return request.config.getoption('depth')\n"
    )
    project.pytester.makeconftest(conftest)
    project.update("--second", "1", "--depth", "1")
    assert project.run("--second", "1", "--depth", "1").ret == 0
    text = failure(project.run("--second", "0", "--depth", "2"))
    assert "bindings: routing " in text
    assert "FIFO depth: 1 -> 2" in text
    assert "the same as in the baseline: program, machine, plugins, timing model" in text


def test_another_timing_model_is_reported_apart_from_another_program(project: Project) -> None:
    project.write(CHECK.format("linear()"))
    project.update()
    project.edit(r'"model_version": \d+', f'"model_version": {st.MODEL_VERSION - 1}')
    done = project.run()
    assert done.ret == 0
    done.stdout.fnmatch_lines([f"*'linear' is of MODEL_VERSION 2 and still holds with {3}"])
    project.edit(r'"cycles": 896', '"cycles": 890')
    text = failure(project.run())
    assert "timing model: MODEL_VERSION 2 -> 3" in text
    assert "the same as in the baseline: program," in text
    assert "to separate the two" not in text
    project.write(CHECK.format("linear(compute=512)"))
    text = failure(project.run())
    assert "timing model: MODEL_VERSION 2 -> 3" in text
    assert "program: " in text
    assert "to separate the two, check the old program out" in text


def test_a_simulator_that_changed_unsaid_is_reported(project: Project) -> None:
    project.write(CHECK.format("linear()"))
    project.update()
    project.edit(r'"cycles": 896', '"cycles": 890')
    assert "what changed: no input of the run" in failure(project.run())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tolerance", "holds"),
    [
        ("rtol=0.0", False),
        (f"rtol={383 / 896}", False),
        (f"rtol={384 / 896}", True),
        ("atol=383", False),
        ("atol=384", True),
        ("rtol=0.1, atol=384", True),
        ("rtol={'cycles': 0.5}", True),
        ("rtol={'flops': 0.5}", False),
        ("atol={'cycles': 384, 'flops': 0}", True),
        ("metrics=['flops', 'onchip_bytes', 'offchip_bytes']", True),
        ("metrics=['cycles']", False),
    ],
)
def test_tolerances(project: Project, tolerance: str, holds: bool) -> None:
    project.write(CHECK.format("linear()"))
    project.update()
    project.write(CHECK.format(f"linear(compute=512), {tolerance}"))  # 896 -> 1,280 cycles
    done = project.run()
    assert done.ret == (0 if holds else 1), done.stdout.str()


def test_memory_and_traffic_are_guarded_where_cycles_are_not(project: Project) -> None:
    project.write(CHECK.format("linear()"))
    project.update()
    project.write(CHECK.format("linear(tile=32), metrics=['offchip_bytes', 'onchip_bytes']"))
    text = failure(project.run())
    assert "on-chip bytes changed beyond the baseline" in text
    rows = {line.split("  ")[0]: line for line in text.splitlines()}
    assert rows["cycles"].endswith("not checked")


def test_a_run_that_is_not_ok_is_no_baseline(project: Project) -> None:
    project.write(
        "from tests.pytest_plugin.programs import stuck\n"
        "def test_layer(cycles):\n    cycles.check(stuck())\n"
        "def test_limit(cycles):\n    cycles.check(linear(), limits=st.Limits(max_cycles=9))\n"
    )
    done = project.run("--update-cycles")
    text = failure(done)
    assert "stuck on sda-1024: the run ended with status deadlock" in text
    assert "these units form a circular wait" in text
    assert "linear on sda-1024: the run ended with status limit" in text
    assert not project.file().exists()
    assert st.simulate(stuck()).status == "deadlock"


@pytest.fixture
def guard(tmp_path) -> Cycles:  # type: ignore[no-untyped-def]
    return Cycles(
        tmp_path / "test_a.py", "test_a", root=tmp_path, invoked_from=tmp_path, updating=True
    )


def test_the_result_is_returned(guard: Cycles) -> None:
    assert guard.check(linear()).cycles == 896


def test_repeating_a_check_is_no_conflict(guard: Cycles) -> None:
    guard.check(linear())
    guard.check(linear())
    guard.check(linear(tile=32), name="32")
    with pytest.raises(ArgError, match=r"two checks named 'linear' of different runs; pass name="):
        guard.check(linear(tile=32))
    assert sorted(guard.measured()["checks"]) == ["32", "linear"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"rtol": -0.1}, "rtol of cycles must be a number from 0, found -0.1"),
        ({"rtol": float("nan")}, "rtol of cycles must be a number from 0, found nan"),
        ({"atol": float("inf")}, "atol of cycles must be a number from 0, found inf"),
        ({"rtol": "1%"}, "rtol of cycles must be a number from 0, found '1%'"),
        ({"rtol": {"cycle": 0.1}}, "rtol has 'cycle'; did you mean 'cycles'?"),
        ({"atol": {"flops": 1}, "metrics": ["cycles"]}, "atol has 'flops', which is not among"),
        ({"atol": 3, "metrics": ["flops"]}, "atol is given for cycles, which are not among"),
        ({"metrics": "cycles"}, "metrics must be a list of names, found 'cycles'"),
        ({"metrics": 3}, "metrics must be a list of names, found 3"),
        ({"metrics": []}, "metrics is empty"),
        ({"metrics": ["time"]}, "metrics has 'time'"),
        ({"metrics": [3]}, "metrics has 3"),
        ({"name": 3}, "name must be a string or None, found 3"),
        ({"allow_less": "yes"}, "allow_less must be True or False, found 'yes'"),
    ],
)
def test_wrong_arguments(guard: Cycles, wrong: dict[str, object], message: str) -> None:
    with pytest.raises(ArgError) as caught:
        guard.check(linear(), **wrong)  # type: ignore[arg-type]
    assert f"cycles.check: {message}" in str(caught.value)
    assert not guard.measured()["checks"]


def test_only_programs_are_checked(guard: Cycles) -> None:
    with pytest.raises(ArgError, match=r"cycles\.check"):
        guard.check("linear")  # type: ignore[arg-type]


def test_onchip_bytes_of_constant_lengths_are_known(project: Project) -> None:
    project.write(CHECK.format("cached()"))
    project.update()
    assert project.baselines()["test_layer"]["cached"]["onchip_bytes"] == 40


def test_two_unknown_numbers_are_not_equal(project: Project) -> None:
    project.write(CHECK.format("undecided()"))
    project.update()
    assert project.baselines()["test_layer"]["undecided"]["onchip_bytes"] is None
    done = project.run()
    assert done.ret == 0
    said = " ".join(done.stdout.str().split())
    assert (
        "test_layer: undecided on sda-1024: onchip_bytes not known, since the program has sizes "
        "that only a run decides, and not checked"
    ) in said
    project.write(CHECK.format("undecided(), metrics=['cycles', 'onchip_bytes']"))
    text = failure(project.run())
    assert "so that no baseline can hold; leave it out of metrics, as in metrics=['cycles']" in text
    project.write(CHECK.format("undecided(), metrics=['cycles', 'flops']"))
    done = project.run()
    assert (done.ret, "not known" in done.stdout.str()) == (0, False)


def test_a_baseline_without_an_outline_is_said_plainly(project: Project) -> None:
    project.write(CHECK.format("linear()"))
    project.update()
    path = project.file()
    data = json.loads(path.read_text(encoding="utf-8"))
    for entry in data["tests"]["test_layer"].values():
        del entry["listing"]
    path.write_text(json.dumps(data), encoding="utf-8")
    assert project.run().ret == 0
    project.write(CHECK.format("linear(compute=512)"))
    text = failure(project.run())
    assert "the baseline was written without an outline of the program" in text
