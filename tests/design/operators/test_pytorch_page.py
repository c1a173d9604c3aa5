"""The page on PyTorch and ONNX shows what its programs print, and lists what is known."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stepsim.design.operators.importers.onnx_files.ops import OPS as ONNX
from stepsim.design.operators.importers.pytorch.ops import OPS as TORCH
from tests.design.operators.example_models import require_torch
from tests.pages import DOCS, module_of_docs, run_page


@pytest.mark.slow
def test_all_that_is_refused_is_on_the_page() -> None:
    refusals = module_of_docs("refusals")
    page = refusals.PAGE.read_text(encoding="utf-8")
    assert refusals.drawn(page) == page, "run python docs/refusals.py"
    users = {text: (of_torch, of_onnx) for text, of_torch, of_onnx in refusals.rows()}
    assert all(any(tables) for tables in users.values()), "no operator comes to it"
    assert users["reduction is '...'; known are 'none' and 'add'"] == ([], ["ScatterElements"])


@pytest.mark.torch
def test_the_page_shows_what_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_torch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    wrong = run_page("pytorch.md")
    assert not wrong, "\n".join(wrong)


def test_every_operator_that_is_known_is_in_the_tables() -> None:
    text = (DOCS / "pytorch.md").read_text(encoding="utf-8")
    torch, onnx = text.split("| of PyTorch | |")[1].split("| of ONNX | |")
    known = set(re.findall(r"`(\w+)`", torch))
    assert {name.split(".")[0] for name in TORCH} <= known
    assert known - {name.split(".")[0] for name in TORCH} == {
        "is_causal",
        "scale",
        "enable_gqa",
        "w",
    }
    onnx = onnx.split("\n\n")[0]
    assert set(re.findall(r"`(\w+)`", onnx)) == {*ONNX, "Erf"}
