"""`stepsim compile`, and its folders as workloads of the other commands."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

import stepsim as st
from stepsim.cli.main import main
from tests.cli.conftest import Cli
from tests.samples import sampled
from tests.workloads.configs import transformer, write_config

SMALL = ("gpt2-medium", "--hidden", "64", "--inner", "128", "--heads", "4", "--kv-heads", "4",
         "--head-dim", "16")  # fmt: skip


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compiled") / "plan"
    with pytest.raises(SystemExit) as ended:
        main(["compile", *SMALL, "--out", str(folder)])
    assert ended.value.code in (0, None)
    return folder


@pytest.fixture
def folder(compiled: Path, tmp_path: Path) -> Path:
    """A folder of one's own, as some tests change it."""
    shutil.copytree(compiled, tmp_path / "plan")
    return tmp_path / "plan"


@pytest.mark.slow
def test_a_folder_has_all_files(folder: Path) -> None:
    names = {path.name for path in folder.iterdir()}
    assert names == {
        "plan.yaml",
        "graph.svg",
        "graph.dot",
        "fifo_depths.yaml",
        "fifo_depths.h",
        "program.py",
    }
    dot = (folder / "graph.dot").read_text()
    plan = st.design.Plan.load(folder / "plan.yaml")
    assert dot.count("shape=box") == len(plan.graph.kernels)
    assert "fillcolor=gold" in dot
    pragmas = [x for x in (folder / "fifo_depths.h").read_text().splitlines() if x[:1] == "#"]
    assert len(pragmas) == len({line.split()[3] for line in pragmas})
    assert all(int(line.rpartition("=")[2]) >= 1 for line in pragmas)


@pytest.mark.slow
def test_tables_say_what_was_decided(cli: Cli, tmp_path: Path) -> None:
    out = cli("compile", *SMALL, "--fifo-table", "--passes").out
    said = (
        "attn.q.linear", "converter bytes", "FIFO bytes", "uram", "predicted: ",
        "all 24 layers: first token", "lp + repair + shrink", "== after tile",
    )  # fmt: skip
    assert [text for text in said if text not in out] == []
    found = json.loads(cli("compile", *SMALL, "--json").out)
    assert found["simulated_cycles"] <= 1.005 * found["unbounded_cycles"]


@pytest.mark.slow
def test_a_plan_runs_as_it_was_simulated(cli: Cli, folder: Path) -> None:
    plan = st.design.Plan.load(folder / "plan.yaml")
    found = json.loads(cli("run", str(folder), "--json").out)
    assert (found["cycles"], found["machine"]) == (plan.simulated, "u55c")
    again = cli("run", str(folder), "--fifo-depth", str(folder / "fifo_depths.yaml"), "--json")
    assert json.loads(again.out)["cycles"] == plan.simulated
    rebuilt = cli(
        "run", f"{folder / 'program.py'}:program", "--machine", "u55c",
        "--fifo-depth", str(folder / "fifo_depths.yaml"), "--json",
    )  # fmt: skip
    assert json.loads(rebuilt.out)["cycles"] == plan.simulated
    assert json.loads(cli("run", str(folder), "--machine", "sda-1024", "--json").out)["cycles"]


@pytest.mark.slow
@pytest.mark.parametrize("command", sampled([("why",), ("inspect",), ("size",)], ("why",)))
def test_other_commands_take_a_plan(cli: Cli, folder: Path, command: tuple[str, ...]) -> None:
    outcome = cli(*command, str(folder))
    assert outcome.code == 0, outcome.err
    assert "gpt2-medium block" in outcome.out


@pytest.mark.slow
def test_sweeps_take_plans_and_designs(cli: Cli, folder: Path, tmp_path: Path) -> None:
    specs = {
        "plan": f"workload: {folder.name}\ngrid:\n  machine.hbm.latency: [31, 62]\n",
        "compiled": "workload: compiled\nparameters: {hidden: 64, inner: 128, heads: 4, "
        "kv_heads: 4, head_dim: 16}\ngrid:\n  tile: [8, 16]\n",
    }
    for name, text in specs.items():
        (tmp_path / f"{name}.yaml").write_text(text)
        spec, out = tmp_path / f"{name}.yaml", tmp_path / f"out-{name}"
        outcome = cli("sweep", "run", str(spec), "--out", str(out))
        assert outcome.code == 0, outcome.err
    found = cli("sweep", "best", str(tmp_path / "out-plan"), "--json").out
    assert str(st.design.Plan.load(folder / "plan.yaml").simulated) in found


@pytest.mark.slow
def test_groups_run_one_after_another(cli: Cli, tmp_path: Path) -> None:
    where = str(tmp_path / "groups")
    assert cli("compile", *SMALL, "--budget", "600B", "--out", where).code == 0
    plan = st.design.Plan.load(tmp_path / "groups" / "plan.yaml")
    out = cli("run", where).out
    assert len(plan.groups) > 2
    said = f"all {len(plan.groups)} groups, one after another: {plan.simulated:,} cycles"
    assert said in out
    one = json.loads(cli("run", where, "--group", "1", "--json").out)
    assert one["cycles"] == plan.groups[1].simulated
    refused = cli("why", where)
    assert refused.code == 2
    assert "--group: " in refused.err
    assert f"0: {len(plan.graph.groups[0])} kernels" in refused.err


def test_a_file_of_a_user_is_compiled(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "mlp.py"
    file.write_text(
        "from stepsim.design import GraphBuilder\n"
        "def model(hidden=32):\n"
        "    b = GraphBuilder('mlp', 'i8', 'i4')\n"
        "    x = b.input('x', (8, hidden))\n"
        "    b.output(b.linear(x, b.weight('w', (64, hidden))), 'y')\n"
        "    return b.graph()\n"
    )
    out = cli("compile", f"{file}:model", "--hidden", "16", "--tile", "8").out
    assert "mlp on u55c" in out
    refused = cli("compile", f"{file}:mode")
    assert refused.code == 2
    assert "did you mean 'model'?" in refused.err


@pytest.mark.slow
def test_files_of_models_are_compiled_and_checked(cli: Cli, tmp_path: Path) -> None:
    config = transformer("llama", 32, 48, 2, 2, 1, 100, attn_logit_softcapping=30.0)
    folder = write_config(tmp_path / "tiny", config).parent
    outcome = cli("compile", str(folder), "--no-shrink", "--check", "--seed", "3", "--json")
    assert outcome.code == 0, outcome.err
    found = json.loads(outcome.out)
    assert found["check"]["ok"]
    assert found["check"]["seed"] == 3
    assert found["prediction_error"].startswith("in ")
    assert "attn_logit_softcapping 30.0 is not modeled" in outcome.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("gpt2-mediun",), "did you mean 'gpt2-medium'?"),
        ((*SMALL, "--budget", "41XB"), "--budget: expected bytes"),
        ((*SMALL, "--tile", "0"), "--tile: expected a whole number from 1"),
        ((*SMALL, "--effort", "-1"), "--effort: expected a whole number from 0"),
        ((*SMALL, "--tokens", "0"), "--tokens: expected a whole number from 1"),
        ((*SMALL, "--attention-layer", "1"), "all layers of gpt2-medium are alike"),
        ((*SMALL, "--config", "publishd"), "did you mean 'published'?"),
        ((*SMALL, "--config", "published"), "leave hidden, inner, heads, kv_heads, head_dim out"),
        ((*SMALL, "--seed", "1"), "--seed: has an effect with --check alone"),
        ((*SMALL, "--json", "--passes"), "--passes: prints text, which has no place in --json"),
        ((*SMALL, "--out", "/dev/null/x"), "/dev/null is not a folder; name another folder"),
        ((*SMALL, "--check", "--seed", "-1"), "seed is -1; use a whole number from 0"),
        (("absent/config.json",), "there is no such file"),
    ],
)
def test_mistakes_are_reported(cli: Cli, options: tuple[str, ...], said: str) -> None:
    outcome = cli("compile", *options)
    assert outcome.code == 2
    assert said in outcome.err


@pytest.mark.slow
def test_a_damaged_plan_is_reported(cli: Cli, folder: Path) -> None:
    path = folder / "plan.yaml"
    path.write_text(path.read_text().replace("\ndigest: ", "\ndigest: 00", 1))
    outcome = cli("run", str(folder))
    assert outcome.code == 2
    assert "the operators were changed" in outcome.err


EXPERTS = ("qwen3-30b-a3b", "--tokens", "8", "--hidden", "16", "--inner", "8", "--heads", "2",
           "--kv-heads", "1", "--head-dim", "8", "--experts", "4", "--active", "2", "--tile", "4",
           "--unroll", "1024")  # fmt: skip


@pytest.mark.long
def test_experts_are_sized_over_traces_and_run_with_others(cli: Cli, tmp_path: Path) -> None:
    trace, other = str(tmp_path / "routing.parquet"), str(tmp_path / "other.parquet")
    synth = ("trace", "synth", "--experts", "4", "--k", "2", "--tokens", "16")
    assert cli(*synth, "--out", trace).code == 0
    assert cli(*synth, "--seed", "7", "--skew", "4", "--out", other).code == 0
    folder = str(tmp_path / "experts")
    made = cli("compile", *EXPERTS, "--routing", trace, "--out", folder)
    assert made.code == 0, made.err
    assert "no other one deadlocks" in made.out
    plan = st.design.Plan.load(tmp_path / "experts" / "plan.yaml")
    found = [
        json.loads(cli("run", folder, "--routing", part, "--batch", "8", "--json").out)["cycles"]
        for part in (trace, f"{trace},window=1")
    ]
    assert max(found) == plan.simulated
    assert json.loads(cli("run", folder, "--routing", other, "--batch", "8", "--json").out)[
        "cycles"
    ]
    refused = cli("run", folder, "--routing", other)
    assert refused.code == 2
    assert "expected 8 tokens with 2 experts each" in refused.err
    assert "--routing: missing" in cli("run", folder).err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (EXPERTS, "has experts, whose FIFOs are sized over routings"),
        ((*SMALL, "--experts", "4"), "experts: gpt2-medium has no experts"),
        ((*SMALL, "--routings", "4"), "--routings: has an effect with --routing alone"),
        ((*SMALL, "--keep-going"), "keep_going (--keep-going) has an effect only where a PyTorch"),
        ((*EXPERTS, "--routing", "absent.parquet"), "absent.parquet"),
    ],
)
def test_mistakes_about_experts_are_reported(cli: Cli, options: tuple[str, ...], said: str) -> None:
    outcome = cli("compile", *options)
    assert outcome.code == 2
    assert said in outcome.err


@pytest.mark.slow
def test_a_design_that_does_not_fit_gets_smaller_and_says_so(cli: Cli, tmp_path: Path) -> None:
    room = ("--set", "onchip.capacity_bytes=150000", "--budget", "41MB")
    printed = ("--order", "reductions_outermost")
    outcome = cli("compile", *SMALL, *room, *printed, "--out", str(tmp_path / "plan"))
    assert outcome.code == 0, outcome.err
    assert "tile 16, unroll 2048: group 0 needs" in outcome.out
    assert "\nfits: budget " in outcome.out
    plan = st.design.Plan.load(tmp_path / "plan" / "plan.yaml")
    assert len(plan.groups) > 1
    assert all((one.memory_bytes or 0) <= 150_000 for one in plan.groups)
    assert plan.status == "ok"
    room = ("--set", "onchip.capacity_bytes=100", "--no-fit", "--budget", "41MB")
    none = cli("compile", *SMALL, *room, "--out", str(tmp_path / "none"))
    assert none.code == 1
    assert "infeasible: group 0 needs" in none.err
    assert "of FIFOs" in none.err
    assert st.design.Plan.load(tmp_path / "none" / "plan.yaml").status == "infeasible"


@pytest.mark.slow
def test_pages_are_made_of_runs_of_a_plan(cli: Cli, folder: Path, tmp_path: Path) -> None:
    run = tmp_path / "run.parquet"
    assert cli("run", str(folder), "--record", "--out", str(run)).code == 0
    made = cli("report", str(run), "--out", str(tmp_path / "run.html"))
    assert made.code == 0, made.err
    assert "attn.q.linear" in (tmp_path / "run.html").read_text()
    plan = cli("report", str(folder), "--out", str(tmp_path / "plan.html"))
    assert plan.code == 0, plan.err
    assert "attn.q.linear" in (tmp_path / "plan.html").read_text()


@pytest.mark.slow
def test_pages_of_plans_that_need_more_say_how(cli: Cli, tmp_path: Path) -> None:
    where = str(tmp_path / "groups")
    assert cli("compile", *SMALL, "--budget", "600B", "--out", where).code == 0
    refused = cli("report", where, "--out", str(tmp_path / "plan.html"))
    assert refused.code == 2
    assert f"stepsim run {where} --group N --record --out run.parquet" in refused.err


@pytest.mark.slow
def test_a_plan_is_tuned(cli: Cli, folder: Path, tmp_path: Path) -> None:
    spec = tmp_path / "tune.yaml"
    spec.write_text(
        f"workload: {folder.name}\ngrid:\n  machine.hbm.latency: [31, 62]\n"
        "search: {objectives: [cycles], sampler: random, trials: 2}\n"
    )
    outcome = cli("sweep", "tune", str(spec), "--out", str(tmp_path / "out"))
    assert outcome.code == 0, outcome.err
    assert f"{st.design.Plan.load(folder / 'plan.yaml').simulated:,}" in outcome.out.replace(
        "\u202f", ","
    )


def test_the_help_begins_with_the_output_and_states_defaults_in_one_way(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    text = cli("compile", "--help").out
    panels = ("Output", "Workload", "Machine", "Design choices", "Advanced")
    places = [text.index(f"─ {panel} ─") for panel in panels]
    assert places == sorted(places)
    assert places[0] < text.index("--out ") < places[1]
    assert "─ Options ─" not in text
    assert "multipliers if a design does not fit. (default: on)" in text
    assert "Name of a machine, or a YAML file of one. (default: u55c)" in text
    assert not re.search(r"\[default|default: (True|False)|<bool>", text)
    sweep = cli("sweep", "run", "--help").out
    assert sweep.index("─ Output ─") < sweep.index("--dry-run ") < sweep.index("─ Advanced ─")


OF_FUNCTION = """
from typing import Literal

from stepsim.design import GraphBuilder


def layer(rows: int = 32, width=16, kind: Literal["one", "two"] = "one", mask=None):
    b = GraphBuilder("layer")
    x = b.linear(b.input("x", (rows, width)), b.weight("w", (width, width)))
    if kind == "two":
        x = b.linear(x, b.weight("v", (width, width)))
    b.output(x, "y")
    return b.graph()


def clashing(rows: int = 32, tile: int = 16):
    return layer(rows)


def helping(help: int = 1):
    return layer()


def modelled(model: str = "small"):
    return layer()


def inverse(no_fit: int = 1):
    return layer()


def mutable(rows: int = 32, widths: list = [16], named: dict = {}, options: int = 1):
    return layer(rows, *widths)


def positional(rows: int, /):
    return layer(rows)


largest = max


def setting(set: str = "x"):
    return layer()


def overriding(overrides: str = "x"):
    return layer()


def doubled(x: bool = True, no_x: int = 1):
    return layer()
"""


def test_arguments_with_defaults_that_change_have_no_option(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OF_FUNCTION)
    target = f"{tmp_path}/own.py:mutable"
    found = json.loads(cli("compile", target, "--rows", "64", "--json").out)
    assert "m 4x16" in found["kernels"][0]["loops"]
    shown = cli("compile", target, "--help").out
    assert "--options" in shown
    assert [text for text in ("--widths", "--named") if text in shown] == []


@pytest.mark.slow
def test_the_help_of_a_file_names_its_functions(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In place of an error: a function is named after it is known which there are."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(OF_FUNCTION)
    (tmp_path / "broken.py").write_text("import no_such_module_of_anyone")
    for arguments in (("own.py", "--help"), ("-h", "own.py"), ("--tile", "16", "own.py", "-h")):
        helped = cli("compile", *arguments)
        assert (helped.code, helped.err) == (0, "")
        text = " ".join(helped.out.split())
        assert "Compile a model to kernels, groups" in text
        assert "--unroll" in text
        assert (
            "own.py: name what makes the model, as in own.py:layer; its functions: layer, " in text
        )
        assert "setting, overriding, doubled. Arguments of the function are options" in text
        assert "GraphBuilder" not in text
    helped = cli("compile", "broken.py", "--help")
    assert helped.code == 0
    assert "no_such_module_of_anyone" in " ".join(helped.out.split())
    for arguments in (("own.py",), ("own.py:lay", "--help")):
        refused = cli("compile", *arguments)
        assert refused.code == 2
        assert "functions: layer, clashing, helping, modelled, inverse, mutable" in refused.err


@pytest.mark.slow
def test_arguments_of_a_function_are_options(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OF_FUNCTION)
    target = f"{tmp_path}/own.py:layer"
    found = json.loads(cli("compile", "--rows", "64", target, "--kind", "two", "--json").out)
    assert [one["kernel"] for one in found["kernels"]] == ["linear", "linear_2"]
    assert "m 4x16" in found["kernels"][0]["loops"]
    shown = cli("compile", target, "--help").out
    offered = ("--rows", "--width", "one|two", "--unroll", "--out")
    assert [text for text in offered if text not in shown] == []
    assert [text for text in ("--mask", "--hidden", "--tokens") if text in shown] == []
    for arguments, message in (
        ((target, "--rows", "0"), "--rows: expected a whole number from 1, found 0"),
        ((target, "--tokens", "3"), "No such option: --tokens"),
        ((f"{tmp_path}/own.py:clashing",), "clashes with the option --tile of stepsim compile"),
        ((f"{tmp_path}/own.py:helping",), "clashes with the option --help of stepsim compile"),
        ((f"{tmp_path}/own.py:inverse",), "clashes with the option --no-fit of stepsim compile"),
        ((f"{tmp_path}/own.py:modelled",), "clashes with the argument MODEL of stepsim compile"),
        ((f"{tmp_path}/own.py:setting",), "clashes with the option --set of stepsim compile"),
        ((f"{tmp_path}/own.py:overriding",), "clashes with the option --set of stepsim compile"),
        (
            (f"{tmp_path}/own.py:doubled",),
            "no_x of the function clashes with the option --no-x of ",
        ),
        ((f"{tmp_path}/own.py:positional",), "rows: the argument has no value, and cannot be"),
        ((f"{tmp_path}/own.py:largest",), "own.py:largest: the arguments of "),
    ):
        refused = cli("compile", *arguments)
        assert refused.code == 2
        assert message in refused.err
