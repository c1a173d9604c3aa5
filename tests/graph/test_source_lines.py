"""Where an operator says it was built."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import stepsim.graph as st

_CODE = """
def build():
    with st.Program("p", compute_bw=1) as program:
        st.linear_load(st.spec(64, 64), tile=(16, 16)).consume()
    return program
"""


def _sources_when_built_in(path: str) -> set[str]:
    names = {"st": st}
    exec(compile(_CODE, path, "exec"), names)
    return {op.source for op in names["build"]().operators}


def test_the_line_of_the_user_is_named(tmp_path: Path) -> None:
    path = str(tmp_path / "mine.py")
    assert _sources_when_built_in(path) == {f"{path}:4"}


def test_a_library_that_calls_is_not_taken_for_the_user() -> None:
    for kind in ("purelib", "stdlib"):
        library = Path(sysconfig.get_path(kind)) / "typer" / "main.py"
        assert _sources_when_built_in(str(library)) == {""}
