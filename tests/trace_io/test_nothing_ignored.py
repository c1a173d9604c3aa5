"""Every option of an import and every argument of a reader acts, or is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stepsim.errors import ArgError, StepSimError
from stepsim.trace_io import (
    TRACE_OPTIONS,
    Format,
    RequestTrace,
    RoutingTable,
    import_trace,
    load_requests,
    read_kv_lengths,
    read_requests,
    read_routing,
    read_routing_batches,
    summarize_routing,
    trace_formats,
    write_routing,
)
from stepsim.trace_io.importing import load_context_tokens
from tests.trace_io import foreign

DOC = Path(__file__).parents[2] / "docs" / "traces.md"
IDS = foreign.routing(6)
FORMATS = {name: found for name, found in trace_formats().items() if found.package is None}
ROUTING = [name for name, found in FORMATS.items() if found.holds == "routing"]
REQUESTS = [name for name, found in FORMATS.items() if found.holds == "requests"]
GIVEN: dict[str, Any] = {
    "model": "m",
    "experts": 2,
    "k": 2,
    "column": "b",
    "layers": 5,
    "drop_missing": True,
    "ranks": [1],
}


def source(folder: Path, name: str, option: str) -> Path:
    """A file of a format in which ``option`` can make a difference."""
    path = folder / "in"
    ids = IDS.copy()
    if option == "drop_missing":
        ids[2] = -1
    if name == "numpy":
        with path.open("wb") as file:
            np.save(file, ids)
    elif name == "vllm":
        foreign.lines(path, [foreign.vllm_response(ids, IDS)])
    elif name == "sglang":
        foreign.lines(path, [foreign.sglang_generate(ids)])
    elif name == "megatron":
        path.mkdir()
        for rank in range(2):
            record = foreign.megatron_record(IDS[rank:, 0], 0, 0, rank)
            foreign.lines(path / f"router_trace_rank{rank}.jsonl", [record])
    elif name == "llamacpp":
        path.write_text(foreign.llamacpp_text([IDS, IDS[:1]]))
    elif name == "parquet":
        columns = {"a": ids, "b": ids[::-1]} if option == "column" else {"experts": ids}
        pq.write_table(pa.table({key: list(x.tolist()) for key, x in columns.items()}), path)
    elif name == "azure":
        path.write_text(foreign.AZURE)
    elif name == "mooncake":
        foreign.lines(path, foreign.MOONCAKE)
    elif name == "lengths":
        path.write_text("a,b\n1,2\n3,4\n" if option == "column" else "1\n3\n")
    else:
        RequestTrace(np.arange(3)).to_parquet(path)
    return path


def outcome(read: Any, *arguments: Any, **options: Any) -> object:
    """What a reader returns, as values that can be compared, or the message of its error."""
    try:
        found = read(*arguments, **options)
    except StepSimError as error:
        return str(error)
    return found.tolist() if isinstance(found, np.ndarray) else found


def imported(path: Path, **options: Any) -> object:
    out = path.with_name("out")
    import_trace(path, out, **options)
    if pq.read_schema(out).names[0] == "request":
        return read_requests(out)
    return list(read_routing_batches(out))


def refusal(path: Path, name: str, option: str) -> str:
    users = [other for other in sorted(FORMATS) if option in FORMATS[other].all_options]
    return (
        f"{path}: {TRACE_OPTIONS[option]} ({option}=) is given, but the format {name} does not "
        "use it; leave it out, or name a format that does with --format (format=): "
        f"{', '.join(users)}"
    )


@pytest.mark.parametrize("option", GIVEN)
@pytest.mark.parametrize("name", [name for name in FORMATS if name != "requests"])
def test_an_option_of_an_import_acts_or_is_refused(tmp_path, name, option):
    path = source(tmp_path, name, option)
    base: dict[str, Any] = {"format": name} | ({"k": foreign.K} if name == "sglang" else {})
    options = base | {option: GIVEN[option]}
    found = outcome(imported, path, **options)
    if option not in FORMATS[name].all_options:
        assert found == refusal(path, name, option)
        if name in ROUTING:
            assert outcome(summarize_routing, path, **options) == found
    else:
        assert found != outcome(imported, path, **base)
        assert "does not use" not in str(found)


@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.parametrize("read", [load_requests, load_context_tokens])
@pytest.mark.parametrize("named", [True, False])
def test_a_column_of_requests_is_read_or_refused(tmp_path, name, read, named):
    path = source(tmp_path, name, "column")
    options = {"format": name} if named or name == "lengths" else {}
    found = outcome(read, path, column="b", **options)
    if name == "lengths":
        assert found in ([2, 4], RequestTrace(np.array([2, 4])))
    else:
        assert found == refusal(path, name, "column")


@pytest.mark.parametrize(
    ("form", "options", "says"),
    [
        ("rows", {"layers": 3}, "--layers (layers=) is given, but each row is a token in one"),
        ("rows", {"drop_missing": True}, "--drop-missing (drop_missing=) is given, but each row"),
        ("array", {"layers": 3}, "`experts` has 1 layers (shape (6, 1, 4)), expected 3; check"),
        ("record", {"ranks": [0]}, "ranks are chosen among the files of a Megatron folder, but"),
        ("lengths", {"column": "b"}, "has no columns to choose 'b' from, only text files with"),
    ],
)
def test_options_that_depend_on_the_file(tmp_path, form, options, says):
    path = tmp_path / "x.npy"
    if form == "rows":
        pq.write_table(pa.table({"experts": IDS[:, 0].tolist()}), path)
    elif form == "record":
        foreign.lines(path, [foreign.megatron_record(IDS[:, 0], 0, 0)])
    else:
        np.save(path, IDS[:, 0] if form == "array" else np.arange(4))
    assert str(outcome(import_trace, path, tmp_path / "o", **options)).startswith(f"{path}: {says}")


def test_a_format_declares_options_that_exist():
    with pytest.raises(ArgError) as caught:
        Format("x", "routing", print, print, options=("colum",))
    assert str(caught.value) == (
        "format x: options has 'colum', expected names among column, layers, drop_missing, ranks; "
        "correct or drop it"
    )


def test_the_documentation_has_the_formats_of_each_option():
    rows = re.findall(r"^\| (`--.*?) \| (.*) \|$", DOC.read_text(), re.M)
    accepted = {
        option: (sorted(ROUTING) if formats == "all of expert routing" else names(formats))
        for options, formats in rows
        for option in names(options)
        if option != "--format"
    }
    used = {
        flag: sorted(name for name in FORMATS if option in FORMATS[name].all_options)
        for option, flag in TRACE_OPTIONS.items()
    }
    assert accepted == used


def names(text: str) -> list[str]:
    """What stands in single back quotes, without the names of commands."""
    return [name for name in re.findall(r"`(.*?)`", text) if name not in ("info", "plot")]


# --- readers


@pytest.mark.parametrize(
    "argument",
    [
        {"experts": 2},
        {"k": 3},
        {"layer": 1},
        {"step": 1},
        {"model": "x"},
        {"tokens": 2},
        {"window": 1},
        {"tokens": 2, "window": 1},
    ],
)
@pytest.mark.parametrize("form", ["array", "npy", "labeled", "unlabeled", "arrow"])
def test_an_argument_of_read_routing_acts_or_is_refused(tmp_path, form, argument):
    base: dict[str, Any] = {}
    trace: object = tmp_path / "x.npy"
    if form == "npy":
        np.save(tmp_path / "x.npy", IDS)
        base = {"layer": 0}
    elif form == "labeled":
        tables = [RoutingTable(IDS[:, layer], layer=layer, model="m") for layer in range(2)]
        write_routing(tables, tmp_path / "x.npy")
        base = {"layer": 0}
    elif form == "array":
        trace = IDS[:, 0]
    else:
        trace = pa.table({"experts": IDS[:, 0].tolist()})
        if form == "unlabeled":
            pq.write_table(trace, tmp_path / "x.npy")
            trace = tmp_path / "x.npy"
    without = outcome(read_routing, trace, **base)
    assert not isinstance(without, str)
    assert outcome(read_routing, trace, **base | argument) != without


@pytest.mark.parametrize(
    "argument",
    [
        {"column": "b"},
        {"requests": 3},
        {"step": 1},
        {"window": 0},
        {"requests": 1, "window": 0},
        {"minimum": 10_000},
        {"minimum": -1},
        {"maximum": 0},
        {"minimum": 2, "maximum": 1},
    ],
)
@pytest.mark.parametrize("form", ["array", "npy", "text", "azure", "requests", "steps"])
def test_an_argument_of_read_kv_lengths_acts_or_is_refused(tmp_path, form, argument):
    base: dict[str, Any] = {}
    path = tmp_path / "x.npy"
    trace: object = path
    if form == "array":
        trace = np.array([374, 396])
    elif form == "npy":
        np.save(path, [374, 396])
    elif form == "text":
        path.write_text("a,b\n374,44\n396,109\n")
        base = {"column": "a"}
    elif form == "azure":
        path.write_text(foreign.AZURE)
    elif form == "requests":
        RequestTrace(np.array([374, 396])).to_parquet(path)
    else:
        lengths = [[374, 396], [375, 397]]
        steps = {"step": [0, 1], "requests": [[0, 1]] * 2, "kv_lengths": lengths}
        pq.write_table(pa.table(steps), path)
        base = {"step": 0}
    without = outcome(read_kv_lengths, trace, **base)
    assert without == [374, 396]
    assert outcome(read_kv_lengths, trace, **base | argument) != without


@pytest.mark.parametrize("columns", [(), ("generated_tokens",), ("context_tokens", "x")])
def test_columns_of_requests_that_the_schema_lacks(columns):
    with pytest.raises(ArgError, match=r"read_requests: columns are .*, expected context_tokens"):
        read_requests(RequestTrace(np.arange(3)), columns=columns)
