"""Parameters: how texts and values are read, what is refused, and what a declaration derives."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Optional

import numpy as np
import pytest

from stepsim.errors import ArgError
from stepsim.workloads import (
    Attention,
    Data,
    Decoder,
    Model,
    Moe,
    Param,
    ParameterError,
    Swiglu,
    Workload,
)
from stepsim.workloads.functions import of_function
from stepsim.workloads.parameters import fields_of


class Reader:
    """A value that only reads 'good'."""

    @classmethod
    def parse(cls, value: object) -> Reader:
        return {"good": cls}[value]()  # type: ignore[index]


@dataclass(frozen=True, kw_only=True)
class Sample(Workload):
    """One parameter of every type."""

    rows: Annotated[int, Param("rows of the batch", "rows", least=2, most=4096)]
    tile: Annotated[int | Literal["dynamic", "half"], Param("rows per tile")] = "dynamic"
    order: Literal["rows", "columns"] = "rows"
    scale: float = 1.0
    fused: bool = False
    title: Annotated[str, "what it is called"] = "x"
    sizes: tuple[int, ...] | None = None
    depth: Optional[int] = None  # noqa: UP045 - both spellings are read
    width: Annotated[int | None, Param(like="rows")] = None
    model: Model | None = None
    share: Annotated[int, Param(text=True)] = 1
    pair: tuple[int, ...] = (4, 4)
    rate: int | float = 1
    part: Annotated[float, Param(least=0, most=0.5)] = 0.25
    cut: float | Literal["none"] = 1.0
    heat: Annotated[float, Param(least=-2)] = 0.0
    read: Reader | None = None

    name = "sample"


FIELDS = fields_of(Sample)


def same(got: Any, expected: Any) -> None:
    assert got == expected
    assert type(got) is type(expected)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("rows", "2", 2), ("rows", "4096", 4096), ("rows", " 64 ", 64),
        ("tile", "dynamic", "dynamic"), ("tile", "8", 8),
        ("order", "columns", "columns"),
        ("scale", "0.5", 0.5), ("scale", "2", 2.0), ("scale", "1e-3", 1e-3),
        *(("fused", text, True) for text in ("true", "Yes", "on", "1")),
        *(("fused", text, False) for text in ("false", "NO", "off", "0")),
        ("title", "12", "12"), ("title", "", ""),
        ("sizes", "64+16", (64, 16)), ("sizes", "64,16", (64, 16)), ("sizes", "8", (8,)),
        ("depth", "4", 4),
        ("rate", "3", 3.0), ("rate", "0.5", 0.5), ("cut", "3", 3.0), ("cut", "none", "none"),
        ("part", "0.5", 0.5), ("heat", "-2", -2.0),
        ("model", "mixtral-8x7b", Model.parse("mixtral-8x7b")),
    ],
)  # fmt: skip
def test_texts_are_read(name, text, expected):
    same(FIELDS[name].parsed(text), expected)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("rows", 64, 64), ("rows", np.int32(64), 64), ("rows", np.array(7)[()], 7),
        ("tile", "half", "half"), ("tile", np.uint8(3), 3),
        ("scale", 2, 2.0), ("scale", np.float64(0.5), 0.5), ("scale", np.float32(0.5), 0.5),
        ("scale", np.int64(2), 2.0),
        ("fused", True, True), ("fused", np.bool_(True), True),
        ("title", "x", "x"),
        ("sizes", [64, 16], (64, 16)), ("sizes", (np.int64(8),), (8,)), ("sizes", "4+4", (4, 4)),
        ("rate", 3, 3.0), ("rate", 0, 0.0), ("cut", 3, 3.0), ("part", 0, 0.0),
        ("sizes", None, None), ("depth", None, None), ("depth", 3, 3),
        ("model", Model.parse("mixtral-8x7b"), Model.parse("mixtral-8x7b")),
    ],
)  # fmt: skip
def test_values_are_taken(name, value, expected):
    same(FIELDS[name].checked(value), expected)


TEXTS = [
    ("rows", "x", "expected a whole number from 2, found 'x'"),
    ("rows", "", "expected a whole number from 2, found ''"),
    ("rows", "2.5", "expected a whole number from 2, found 2.5"),
    ("rows", "1", "expected a whole number from 2, found 1"),
    ("rows", "4097", "expected a whole number from 2 to 2**12, found 4097"),
    (
        "tile", "dynamc",
        "expected a whole number from 1, or 'dynamic', or 'half', found 'dynamc'; "
        "did you mean 'dynamic'?",
    ),
    ("tile", "0", "expected a whole number from 1, or 'dynamic', or 'half', found 0"),
    ("order", "row", "expected one of rows, columns, found 'row'; did you mean 'rows'?"),
    ("order", "x", "expected one of rows, columns, found 'x'"),
    ("scale", "much", "expected a number, found 'much'"),
    ("scale", "nan", "expected a number, found nan"),
    ("scale", "-inf", "expected a number, found -inf"),
    ("fused", "maybe", "expected true or false, found 'maybe'"),
    (
        "sizes", "64+x",
        "expected whole numbers from 1 joined by +, for example 64+16, found '64+x'",
    ),
    ("sizes", "", "expected whole numbers from 1 joined by +, for example 64+16, found ''"),
    ("sizes", "8+0", "expected whole numbers from 1 joined by +, for example 64+16, found '8+0'"),
    ("depth", "none", "expected a whole number from 1, found 'none'"),
    ("part", "0.6", "expected a number from 0 to 0.5, found 0.6"),
    ("heat", "-3", "expected a number from -2, found -3"),
    (
        "read", "bad",
        "Reader.parse raised KeyError: 'bad'; let it raise ArgError for values that it cannot "
        "read, found 'bad'",
    ),
]  # fmt: skip

VALUES = [
    ("rows", True, "expected a whole number from 2, found True"),
    ("rows", np.bool_(True), "expected a whole number from 2, found True"),
    ("rows", 64.0, "expected a whole number from 2, found 64.0"),
    ("rows", "64", "expected a whole number from 2, found '64'"),
    ("rows", None, "expected a whole number from 2, found None"),
    ("rows", [64], "expected a whole number from 2, found [64]"),
    ("rows", -1, "expected a whole number from 2, found -1"),
    ("rows", 10**30, f"expected a whole number from 2 to 2**12, found {10**30}"),
    ("tile", None, "expected a whole number from 1, or 'dynamic', or 'half', found None"),
    ("scale", "1", "expected a number, found '1'"),
    ("scale", True, "expected a number, found True"),
    ("scale", float("nan"), "expected a number, found nan"),
    ("scale", float("inf"), "expected a number, found inf"),
    ("scale", 10**400, "expected a number, found a number of 1329 bits"),
    pytest.param(
        "scale", -(10**5000), "expected a number, found a number of 16610 bits", id="long-float"
    ),
    pytest.param(
        "rows", 10**5000, "expected a whole number from 2 to 2**12, found a number of 16610 bits",
        id="long-int",
    ),
    pytest.param(
        "rows", [10**5000],
        "expected a whole number from 2, found a list that cannot be printed",
        id="long-list",
    ),
    ("part", -0.5, "expected a number from 0 to 0.5, found -0.5"),
    ("part", 1, "expected a number from 0 to 0.5, found 1"),
    (
        "read", [1],
        "Reader.parse raised TypeError: unhashable type: 'list'; let it raise ArgError for values "
        "that it cannot read, found [1]",
    ),
    ("fused", 1, "expected true or false, found 1"),
    ("fused", "true", "expected true or false, found 'true'"),
    ("title", 3, "expected a text, found 3"),
    (
        "sizes", [64, 1.5],
        "expected whole numbers from 1 joined by +, for example 64+16, found [64, 1.5]",
    ),
    ("sizes", [], "expected whole numbers from 1 joined by +, for example 64+16, found []"),
    ("sizes", 64, "expected whole numbers from 1 joined by +, for example 64+16, found 64"),
    ("depth", {}, "expected a whole number from 1, found {}"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "message"), TEXTS)
def test_texts_are_refused(name, text, message):
    with pytest.raises(ParameterError) as caught:
        FIELDS[name].parsed(text)
    assert caught.value.problems == ((name, message),)


@pytest.mark.parametrize(("name", "value", "message"), VALUES)
def test_values_are_refused(name, value, message):
    with pytest.raises(ParameterError) as caught:
        FIELDS[name].checked(value)
    assert caught.value.problems == ((name, message),)
    with pytest.raises(ParameterError):
        Sample(**{"rows": 4} | {name: value})


def test_models_say_themselves_what_is_wrong():
    with pytest.raises(ParameterError, match=r"^model: .*mixtral-8x7"):
        FIELDS["model"].parsed("mixtral-8x7")


def test_all_wrong_parameters_are_reported_at_once():
    with pytest.raises(ParameterError) as caught:
        Sample(rows=1, order="row", scale=2)
    assert [name for name, _ in caught.value.problems] == ["rows", "order"]
    assert str(caught.value).splitlines()[0] == "rows: expected a whole number from 2, found 1"


@pytest.mark.parametrize(
    ("given", "problems"),
    [
        (
            {},
            [("rows", "missing (rows of the batch); expected a whole number from 2")],
        ),
        (
            {"row": 4, "rows": "x"},
            [
                ("row", "sample has no such parameter; did you mean 'rows'? Its parameters: rows,"),
                ("rows", "expected a whole number from 2, found 'x'"),
            ],
        ),
        (
            {"rows": 4, "qqq": 1},
            [("qqq", "sample has no such parameter. Its parameters: rows, tile, order, scale,")],
        ),
        ({"rows": None}, [("rows", "expected a whole number from 2, found None")]),
        ({"rows": 2, "config": "paper"}, [("config", "expected published, found 'paper'")]),
        (
            {"rows": 2, "config": "published"},
            [("config", "there is no published experiment of sample; leave it out")],
        ),
    ],
)
def test_sets_of_parameters_are_refused(given, problems):
    with pytest.raises(ParameterError) as caught:
        Sample.of(**given)
    assert len(caught.value.problems) == len(problems)
    for (name, text), (wanted, start) in zip(caught.value.problems, problems, strict=True):
        assert name == wanted
        assert text.startswith(start)


def test_like_another_parameter():
    assert Sample(rows=16).width == 16
    assert Sample(rows=16, width=8).width == 8
    assert Sample.of(rows=16).width == 16


def test_none_takes_the_default_as_if_it_were_left_out():
    assert Sample.of(rows=16, depth=None) == Sample(rows=16)


def test_errors_cross_processes():
    with pytest.raises(ParameterError) as caught:
        Sample(rows=1, order="row")
    again = pickle.loads(pickle.dumps(caught.value))
    assert again.problems == caught.value.problems
    assert str(again) == str(caught.value)
    assert again.text(lambda name: f"--{name}").startswith("--rows: expected")


def test_workloads_compare_and_cross_processes():
    one = Sample(rows=16, sizes=[8, 8])
    assert pickle.loads(pickle.dumps(one)) == one
    assert hash(one) == hash(Sample(rows=16, sizes=(8, 8)))
    with pytest.raises(AttributeError):
        one.rows = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("name", "column", "metavar", "option"),
    [
        ("rows", "int64", "N", "--rows"),
        ("tile", "string", "N|dynamic|half", "--tile"),
        ("order", "string", "rows|columns", "--order"),
        ("scale", "double", "X", "--scale"),
        ("title", "string", "TEXT", "--title"),
        ("sizes", "string", "N+N", "--sizes"),
        ("depth", "int64", "N", "--depth"),
        ("model", "string", "MODEL", "--model"),
        ("share", "string", "N", "--share"),
    ],
)
def test_what_a_declaration_derives(name, column, metavar, option):
    import pyarrow as pa

    field = FIELDS[name]
    assert str(pa.type_for_alias(field.column_type)) == column
    assert field.kind.metavar == metavar
    assert field.option == option


def test_values_stand_in_columns_by_their_types():
    found = Sample(rows=16, tile=8, sizes=(64, 16), share=2, model="mixtral-8x7b").columns()
    assert found["rows"] == 16
    assert found["tile"] == "8"
    assert found["sizes"] == "64+16"  # as it is given
    assert found["share"] == "2"
    assert found["model"] == "mixtral-8x7b"
    assert found["depth"] is None


@pytest.mark.parametrize(
    ("annotation", "found"),
    [
        (list[int], r"list\[int\]"), (tuple[int, int], r"tuple\[int, int\]"), (dict, "dict"),
        (np.ndarray, "ndarray"), (Literal[1, 2], r"\[1, 2\]"), (int | list, "list"), (Any, "Any"),
    ],
)  # fmt: skip
def test_types_that_no_option_can_have(annotation, found):
    odd = dataclass(frozen=True)(
        type("Odd", (Workload,), {"__annotations__": {"what": annotation}})
    )
    with pytest.raises(ArgError, match=f"^workload Odd, parameter what: expected .*{found}"):
        fields_of(odd)


def declared(annotation: Any, **default: Any) -> type[Workload]:
    """A workload with one parameter, what."""
    types = {"what": annotation} | ({"other": int} if "other" in default else {})
    made = type("Odd", (Workload,), {"__annotations__": types, **default})
    return dataclass(frozen=True, kw_only=True)(made)


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        *(
            (union, "expected bool alone, since it is a flag on the command line, found ")
            for union in (bool | int, int | bool | None, bool | float, bool | Literal["auto"])
        ),
        (Annotated[int, Param(least="a")], "expected a whole number as least, found 'a'"),
        (Annotated[int, Param(most=2.5)], "expected a whole number as most, found 2.5"),
        (Annotated[int, Param(least=True)], "expected a whole number as least, found True"),
        (Annotated[float, Param(most="9")], "expected a number as most, found '9'"),
        (Annotated[float, Param(least=float("nan"))], "expected a number as least, found nan"),
        (Annotated[str, Param(least=3)], "has no numbers, found least=3; leave it out"),
        (
            Annotated[float, Param(least=3, most=2)],
            "expected a least number up to the most, 2, found 3",
        ),
        (
            Annotated[int, Param(most=0)],
            "expected a least number up to the most, 0, found 1",
        ),
    ],
)
def test_declarations_that_contradict_themselves(annotation, message):
    with pytest.raises(ArgError) as caught:
        fields_of(declared(annotation))
    assert str(caught.value).startswith(f"workload Odd, parameter what: {message}")


def broken() -> int:
    return 1 // 0


@pytest.mark.parametrize(
    ("annotation", "default", "message"),
    [
        (int, None, "expected a default that is a whole number from 1, found None; add '| None'"),
        (Model, None, "expected a default that is a value of type Model, found None; add '| None'"),
        (int, "x", "wrong default: expected a whole number from 1, found 'x'"),
        (Annotated[int, Param(least=5)], 1, "wrong default: expected a whole number from 5, found"),
        (Literal["a", "b"], "c", "wrong default: expected one of a, b, found 'c'"),
        (Model, "mixtrl-8x7b", "wrong default: unknown model 'mixtrl-8x7b'; did you mean"),
        (Reader, "bad", "wrong default: Reader.parse raised KeyError: 'bad'; "),
        (
            tuple[int, ...], field(default_factory=lambda: [1, 2]),
            "expected a tuple as default, found the list [1, 2]",
        ),
        (
            tuple[int, ...], field(default_factory=lambda: np.arange(3)),
            "wrong default: expected whole numbers from 1 joined by +, for example 64+16, found [0",
        ),
        (
            int, field(default_factory=broken),
            "default_factory raised ZeroDivisionError: integer division or modulo by zero; write",
        ),
        (
            Annotated[int, Param(machine="fifo.dept")], 1,
            "expected a key of machines in Param(machine=...), found 'fifo.dept'; did you mean "
            "'fifo.depth'? Known: name, ",
        ),
        (
            Annotated[int, Param(machine="fifo")], 1,
            "expected a key of machines in Param(machine=...), found 'fifo'",
        ),
        (
            Annotated[int | None, Param(like="zz")], None,
            "expected another parameter in Param(like=...), found 'zz'. Known: other",
        ),
        (
            Annotated[int | None, Param(like="what")], None,
            "expected another parameter in Param(like=...), found 'what'. Known: other",
        ),
        (
            Annotated[int, Param(like="other")], 3,
            "expected the default None, in whose place Param(like=...) puts the value of other, "
            "found 3",
        ),
    ],
)  # fmt: skip
def test_defaults_and_names_that_do_not_hold(annotation, default, message):
    odd = declared(annotation, what=default, other=1)
    with pytest.raises(ArgError) as caught:
        fields_of(odd)
    assert str(caught.value).startswith(f"workload Odd, parameter what: {message}")


def test_a_default_is_a_value():
    assert fields_of(declared(float | None, what=1))["what"].default == 1.0
    assert fields_of(declared(Model, what="mixtral-8x7b"))["what"].default.name == "mixtral-8x7b"


def test_numbers_have_a_column_of_numbers():
    assert FIELDS["rate"].column_type == FIELDS["part"].column_type == "float64"
    assert FIELDS["cut"].column_type == "string"
    found = Sample(rows=2, rate=3, cut=3).columns()
    assert (found["rate"], found["cut"]) == (3.0, "3.0")


def test_a_parameter_of_several_workloads_is_one():
    meanings: dict[str, set[tuple[str, str, str | None]]] = {}
    for kind in (Attention, Decoder, Moe, Swiglu):
        for name, one in fields_of(kind).items():
            found = one.param.help, one.param.unit, one.param.machine
            meanings.setdefault(name, set()).add(found)
    assert {name: found for name, found in meanings.items() if len(found) > 1} == {}


@pytest.mark.parametrize(
    ("kind", "name", "text"),
    [
        (Sample, "rows", "required"), (Sample, "tile", "dynamic"), (Sample, "fused", "False"),
        (Sample, "sizes", ""), (Sample, "pair", "4+4"), (Sample, "width", "that of --rows"),
        (Moe, "pack_bw", "that of --compute-bw"), (Moe, "tile", "required"),
        (Moe, "regions", "one for each expert"), (Moe, "fifo_depth", "the machine's, or 2"),
        (Attention, "shape", "that of --model"), (Decoder, "tile", "required without a variant"),
        (Decoder, "strategy", "required without a variant"),
        (Swiglu, "batch", "required without published settings"), (Swiglu, "tile", "required"),
    ],
)  # fmt: skip
def test_what_holds_when_it_is_not_given(kind, name, text):
    one = fields_of(kind)[name]
    assert one.default_text(lambda other: "--" + other.replace("_", "-")) == text
    assert one.default_text() == text.replace("--compute-bw", "compute_bw").replace("--", "")


def test_a_workload_is_a_dataclass():
    class Plain(Workload):
        rows: int = 1

    with pytest.raises(ArgError, match="workload Plain: expected a dataclass; put @dataclass"):
        fields_of(Plain)


@pytest.mark.parametrize(
    ("given", "rows", "whole"),
    [
        ({}, 64, 64), ({"rows": None}, 64, 64),
        ({"rows": 5}, 5, 5), ({"routing": [[0], [1]]}, 2, 2),
        ({"kv_lengths": [1, 2, 3], "rows": 3, "whole": 9}, 3, 9),
        ({"routing": [[0], [1]], "kv_lengths": [1, 2]}, 2, 2),
    ],
)  # fmt: skip
def test_data_counts_its_rows(given, rows, whole):
    data = Data.of(**given)
    assert (data.rows, data.whole) == (rows, whole)
    assert len(data.lengths) == rows


def test_tokens_and_requests_are_as_many():
    message = "routing: expected one token for each of the 3 requests of kv_lengths, found 2"
    with pytest.raises(ArgError, match=message):
        Data.of(routing=[[0], [1]], kv_lengths=[1, 2, 3])


IDS = "routing: expected expert ids [tokens, k], whole numbers from 0, found"
LENGTHS = "kv_lengths: expected one whole number for each request, found"
ROWS = "expected a whole number of tokens or requests from"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"routing": 5}, f"{IDS} shape () of int64; pass a row of ids for every token"),
        ({"routing": [1, 2]}, f"{IDS} shape (2,) of int64; "),
        ({"routing": [[[1]]]}, f"{IDS} shape (1, 1, 1) of int64; "),
        ({"routing": []}, f"{IDS} shape (0,) of float64; "),
        ({"routing": np.zeros((0, 2), int)}, f"{IDS} shape (0, 2) of int64; "),
        ({"routing": np.zeros((2, 0), int)}, f"{IDS} shape (2, 0) of int64; "),
        ({"routing": [[0.5, 1]]}, f"{IDS} shape (1, 2) of float64; "),
        ({"routing": [[True]]}, f"{IDS} shape (1, 1) of bool; "),
        ({"routing": "x"}, f"{IDS} shape () of <U1; "),
        ({"routing": [[0], [1, 2]]}, f"{IDS} rows of different lengths: "),
        (
            {"routing": [[0, 1], [2, -3]]},
            "routing[1, 1]: expected an expert id from 0, found -3; drop the token or correct",
        ),
        ({"kv_lengths": [[1], [1, 2]]}, f"{LENGTHS} rows of different lengths: "),
        ({"kv_lengths": [[1], [2]]}, f"{LENGTHS} shape (2, 1) of int64; pass the cached tokens"),
        ({"kv_lengths": 3}, f"{LENGTHS} shape () of int64; "),
        ({"kv_lengths": []}, f"{LENGTHS} shape (0,) of float64; "),
        ({"kv_lengths": [1, -2]}, "kv_lengths[1]: expected a length from 0, found -2; "),
        ({"rows": "x"}, f"rows: {ROWS} 1, found 'x'"),
        ({"rows": 0}, f"rows: {ROWS} 1, found 0"),
        ({"rows": 2.0}, f"rows: {ROWS} 1, found 2.0"),
        ({"rows": True}, f"rows: {ROWS} 1, found True"),
        ({"rows": 3, "kv_lengths": [1, 2]}, "rows: expected the 2 of the arrays, found 3; leave"),
        ({"rows": 8, "whole": 7}, f"whole: {ROWS} 8, found 7"),
        ({"rows": 8, "whole": "x"}, f"whole: {ROWS} 8, found 'x'"),
    ],
)
def test_data_that_are_none(given, message):
    with pytest.raises(ArgError) as caught:
        Data.of(**given)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(("default", "least"), [(1, 1), (0, 0), (-4, -(2**40))])
def test_a_default_says_whether_numbers_may_be_zero_or_less(default: int, least: int) -> None:
    made = fields_of(of_function(lambda seed=default: None, "own", "own.py:own"))["seed"]
    assert (made.default, made.checked(least)) == (default, least)
    with pytest.raises(ParameterError, match=f"expected a whole number from {least}, found"):
        made.checked(least - 1)
