"""The examples of the documentation run, and do what the text says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from stepsim.workloads import MOE_SHAPES

DOCS = Path(__file__).parents[1] / "docs"


def run_examples(page: str) -> dict[str, Any]:
    """Execute the Python blocks of a page one after the other; returns their names."""
    text = (DOCS / page).read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert blocks
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, page, "exec"), names)
    return names


def test_deadlock_page(capsys: pytest.CaptureFixture[str]) -> None:
    names = run_examples("deadlocks.md")
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "deadlock"
    assert printed[-1] == "ok"
    shown = re.search(
        r"```text\n(.*?)```", (DOCS / "deadlocks.md").read_text(encoding="utf-8"), flags=re.DOTALL
    )
    assert shown is not None
    for line in shown[1].splitlines():
        # Line numbers depend on where the reader puts the program.
        text = re.sub(r" \(center\.py:\d+\)$", "", line)
        assert text == "  ..." or any(found.startswith(text) for found in printed), line
    assert names["result"].diagnosis is None


def test_python_page(capsys: pytest.CaptureFixture[str]) -> None:
    names = run_examples("python.md")
    assert names["result"].status == "ok"
    assert names["busiest"].num_rows == 5
    assert "dynamic': ok" in capsys.readouterr().out


def test_values_page() -> None:
    assert run_examples("values.md")["values"].stored["y"].shape == (64, 512)


def test_machines_page() -> None:
    assert run_examples("machines.md")["machine"].peak_bandwidth == 512


def test_workloads_page_lists_every_model() -> None:
    text = (DOCS / "workloads.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(.+)` \| (.+) \|$", text, flags=re.MULTILINE)
    assert rows == [
        (
            shape.name,
            f"{shape.experts} | {shape.active} | {shape.model_dim} | {shape.inner_dim} | "
            f"{shape.shared_inner or '-'}",
        )
        for shape in MOE_SHAPES.values()
    ]


@pytest.mark.parametrize("page", sorted(path.name for path in DOCS.glob("*.md")))
def test_every_page_is_in_the_contents(page: str) -> None:
    contents = (DOCS / "index.md").read_text(encoding="utf-8").split("```{toctree}")[1]
    assert page == "index.md" or page.removesuffix(".md") in contents.split()
