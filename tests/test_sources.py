"""What code and tables of the package refer to can be read: pages of this project, or papers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import stepsim

PACKAGE = Path(stepsim.__file__).parent
ROOT = PACKAGE.parent
FILES = sorted(
    path for ending in ("py", "pyi", "csv") for path in PACKAGE.rglob(f"*.{ending}")
)  # fmt: skip

_PAGE = re.compile(r"(?<![\w/.-])(?:[\w-]+/)*[\w-]+\.md\b")
_SECTION = re.compile(r"StreamTensor[^.]{0,40}\bsections? \d")
"""Numbers of sections of a paper whose parts stepsim names by their subject."""

OF_OTHERS = {
    "reproduce/published.csv": {"experiments.md"},
    "trace_io/formats/azure.py": {"AzureLLMInferenceDataset2023.md"},
    "trace_io/formats/vllm.py": {"docs/training/routed_experts_replay.md"},
    "trace_io/formats/sglang.py": {"docs/basic_usage/openai_api_completions.md"},
}
"""Pages of the projects whose formats these modules read, and notes beside the points that were
collected, which are shipped as they are."""


@pytest.mark.slow
def test_pages_that_are_named_exist() -> None:
    missing = []
    for path in FILES:
        name = path.relative_to(PACKAGE).as_posix()
        for page in set(_PAGE.findall(path.read_text(encoding="utf-8"))):
            if page not in OF_OTHERS.get(name, ()) and not any(
                (folder / page).is_file() for folder in (ROOT, ROOT / "docs")
            ):
                missing.append(f"{name}: {page}")
    assert not missing
    assert len(FILES) > 700


def test_parts_of_papers_are_named_as_their_readers_find_them() -> None:
    texts = {path: " ".join(path.read_text(encoding="utf-8").split()) for path in FILES}
    assert not [path.name for path, text in texts.items() if _SECTION.search(text)]
