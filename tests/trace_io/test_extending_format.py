"""The worked example of docs/extending-trace-format.md as a plugin; and plugins that are broken."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from stepsim import plugins
from stepsim.errors import ArgError, TraceError
from stepsim.trace_io import (
    detect_trace_format,
    import_trace,
    load_requests,
    read_kv_lengths,
    read_routing,
    summarize_routing,
    trace_formats,
)
from stepsim.trace_io.formats import GROUP
from tests.trace_io import foreign

DOC = Path(__file__).parents[2] / "docs" / "extending-trace-format.md"
EXAMPLE, ENTRY_POINT, LOG = (
    re.search(rf"^```{language}\n(.*?)^```", DOC.read_text(), re.M | re.S)[1]
    for language in ("python", "toml", "")
)


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Makes a package with one module, and entry points as in its metadata."""
    site = tmp_path / "site"
    monkeypatch.syspath_prepend(site)
    modules = set(sys.modules)

    def add(module: str, code: str, *entries: str) -> None:
        info = site / f"{module}-1.0.dist-info"
        info.mkdir(parents=True)
        (site / f"{module}.py").write_text(code)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("\n".join([f"[{GROUP}]", *entries]))
        plugins.found.cache_clear()

    yield add
    for name in set(sys.modules) - modules:
        if str(site) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]
    monkeypatch.undo()
    plugins.found.cache_clear()


@pytest.fixture
def tern(install) -> None:
    group, entry = ENTRY_POINT.strip().split("\n")
    assert group == f'[project.entry-points."{GROUP}"]'
    install("tern_traces", EXAMPLE, entry.replace('"', ""))


@pytest.fixture
def log(tmp_path) -> Path:
    path = tmp_path / "router.log"
    path.write_text(LOG)
    return path


def test_the_example_is_read_like_any_format(tern, log, tmp_path):
    assert detect_trace_format(log) == "tern"
    out = tmp_path / "out.parquet"
    for name in (None, "tern"):
        summary = import_trace(log, out, experts=64, format=name)
        assert (summary.format, summary.rows) == ("tern", 3)
    assert read_routing(out, layer=0).experts.tolist() == [[17, 3], [5, 17]]
    assert read_routing(out, layer=1).experts.tolist() == [[2, 40]]
    assert summarize_routing(log, layer=1).experts == 41
    with pytest.raises(TraceError, match=r"is a tern trace, expected .*; convert it with: stepsim"):
        read_routing(log)
    with pytest.raises(TraceError, match=r"is a trace of expert routing \(tern\), expected one of"):
        load_requests(log)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("0 1 2", "line 5: is '0 1 2', expected a step, a layer and as many experts as in"),
        ("0 1 2 x", "line 5: is '0 1 2 x', expected a step, a layer and as many experts as"),
        ("0 1 2 64", "row 5 (layer 1, step 0, token 1): expert id 64 is out of range; the model"),
        ("0 1 7 7", "row 5 (layer 1, step 0, token 1): expert id 7 occurs more than once in [7,"),
        ("-1 1 2 3", "RoutingTable: step is -1, expected 0..2147483647"),
    ],
)
def test_the_example_refuses_what_it_cannot_read(tern, log, tmp_path, line, says):
    log.write_text(f"{LOG}{line}\n")
    with pytest.raises((TraceError, ArgError)) as caught:
        import_trace(log, tmp_path / "out.parquet", experts=64)
    assert str(caught.value).removeprefix(f"{log}: ").startswith(says)
    assert not (tmp_path / "out.parquet").exists()


BROKEN = """
from stepsim.trace_io import Format

def fails(*_):
    raise KeyError("step")

def nothing(job):
    yield 3

NUMBER = 3
TAKEN = Format("azure", "requests", fails, fails)
FAILS = Format("fails", "routing", fails, lambda content: content.fields == ["fails"])
FAILS_AT_ONCE = Format("fails_at_once", "routing", fails, fails)
NOTHING = Format("nothing", "requests", nothing, lambda content: False)
"""

OPTIONS = """
import numpy as np
from stepsim.trace_io import Format, RequestTrace

def read(job):
    lengths = [int(line) for line in job.path.read_text().split()[1:]]
    yield RequestTrace(np.array(lengths) * int(job.column or 1))

def recognizes(content):
    return content.fields == ["scaled"]

SCALED = Format("scaled", "requests", read, recognizes, options=("column",))
"""


def test_a_plugin_gets_the_options_it_declares_and_no_others(install, tern, log, tmp_path):
    install("options", OPTIONS, "scaled = options:SCALED")
    path = tmp_path / "x.txt"
    path.write_text("scaled\n5\n7\n")
    assert load_requests(path, column="2").context_tokens.tolist() == [10, 14]
    assert read_kv_lengths(path).tolist() == [5, 7]
    for source, options, says in (
        (path, {"k": 2}, "--k (k=) is given, but the format scaled does not use it; leave it"),
        (log, {"column": "2"}, "--column (column=) is given, but the format tern does not use it"),
        (log, {"column": "2"}, "with --format (format=): lengths, parquet, scaled"),
        (log, {"layers": 2}, "--layers (layers=) is given, but the format tern does not use it"),
        (log, {"ranks": [0]}, "--rank (ranks=) is given, but the format tern does not use it"),
        (log, {"drop_missing": True}, "--drop-missing (drop_missing=) is given, but the format t"),
    ):
        with pytest.raises(ArgError) as caught:
            import_trace(source, tmp_path / "out.parquet", **options)
        assert str(caught.value).startswith(f"{source}: --")
        assert says in str(caught.value)


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ("x = broken:MISSING", "(AttributeError: "),
        ("x = missing_module:FORMAT", "(ModuleNotFoundError: No module named 'missing_module')"),
        ("x = broken:NUMBER", "(broken:NUMBER is int, expected a Format)"),
        ("x = broken:TAKEN", "(the name `azure` is that of a built-in format)"),
    ],
)
def test_a_broken_plugin_is_named_and_the_rest_works(install, tern, log, tmp_path, entry, says):
    install("broken", BROKEN, entry)
    assert "x" not in trace_formats()
    assert import_trace(log, tmp_path / "out.parquet").rows == 3
    text = tmp_path / "x.txt"
    text.write_text("a,b,c\n")
    for read in (
        lambda: import_trace(log, tmp_path / "out.parquet", format="x"),
        lambda: detect_trace_format(text),
    ):
        with pytest.raises((ArgError, TraceError)) as caught:
            read()
        assert f"; the plugin `x` of package broken cannot be used {says}" in str(caught.value)
        assert str(caught.value).endswith("repair or uninstall the package")


@pytest.mark.parametrize(
    ("name", "raised"),
    [
        ("fails", "KeyError: 'step'"),
        ("nothing", "TypeError: yields int, expected RequestTrace"),
    ],
)
def test_what_a_plugin_raises_is_reported_with_its_package(install, log, tmp_path, name, raised):
    install("broken", BROKEN, f"{name} = broken:{name.upper()}")
    with pytest.raises(TraceError) as caught:
        import_trace(log, tmp_path / "out.parquet", format=name)
    assert str(caught.value) == (
        f"{log}: the plugin format `{name}` of package broken failed ({raised}); report this to "
        "its authors, or choose another --format"
    )


def test_a_plugin_that_fails_to_recognize_leaves_other_formats_alone(install, tmp_path):
    install("broken", BROKEN, "f = broken:FAILS_AT_ONCE")
    lengths = tmp_path / "lengths.txt"
    lengths.write_text("5\n7\n")
    assert detect_trace_format(lengths) == "lengths"
    foreign.lines(lengths, foreign.MOONCAKE)
    assert load_requests(lengths).requests == 2
    lengths.write_text("a,b,c\n")
    with pytest.raises(TraceError, match=r"`fails_at_once` of package broken failed \(KeyError: "):
        detect_trace_format(lengths)
