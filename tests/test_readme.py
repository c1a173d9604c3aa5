"""What the README shows works as shown."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from stepsim.cli.main import main

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_two_commands_set_up_and_go() -> None:
    start = README.index("## Start")
    assert re.search(r"```sh\n(.*?)```", README[start:], flags=re.DOTALL)[1].splitlines() == [
        "make demo",
        "make test",
    ]
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    assert {"demo", "test", "bench", "lint", "docs", "clean"} <= set(targets)


def test_python_example(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = blocks("python")
    exec(compile(example, "README.md", "exec"), {"__name__": "__main__"})
    memory, result = capsys.readouterr().out.splitlines()
    assert int(memory) > 0
    assert result.startswith("Result('linear': ok, ")


@pytest.mark.slow
def test_commands(tmp_path: Path, monkeypatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "linear.py").write_text(blocks("python")[0])
    commands = [
        line for block in blocks("sh") for line in block.splitlines() if "bin/stepsim" in line
    ]
    assert len(commands) == 18
    for command in commands:
        # One figure stands for all of them: they take their time on a busy machine.
        command = command.replace("reproduce all", "reproduce 8")
        with pytest.raises(SystemExit) as ended:
            main(shlex.split(command)[1:])
        assert ended.value.code in (0, None), (command, capsys.readouterr().err)


def test_links_lead_somewhere() -> None:
    targets = re.findall(r"\]\(([^)]+)\)", README)
    assert targets
    assert [target for target in targets if not (ROOT / target).is_file()] == []


@pytest.mark.parametrize(
    ("group", "names"),
    [
        ([], "run why size inspect compile sweep compare report reproduce trace data"),
        (["sweep"], "run tune pareto best compare query"),
    ],
)
def test_subcommands_named_exist(
    capsys: pytest.CaptureFixture[str], group: list[str], names: str
) -> None:
    with pytest.raises(SystemExit):
        main([*group, "--help"])
    shown = capsys.readouterr().out
    assert [name for name in names.split() if not re.search(rf"│ {name}\b", shown)] == []
