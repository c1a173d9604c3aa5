"""Documents that are wrong, oversized or nested without end, and what their readers say."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import yaml
from hypothesis import given, strategies as st

from stepsim.documents import (
    MOST_DEEP,
    load_json,
    load_yaml,
    parse_json,
    parse_yaml,
    parse_yaml_value,
)
from stepsim.errors import MachineError, StepSimError, SweepError, TraceError
from tests.property_profile import profile

MORE = "See the manual."
CURE = f"Write 'key: value' lines, indented by spaces. {MORE}"
DEEP = MOST_DEEP
TOO_DEEP = (
    f"expected lists and mappings at most {DEEP} deep, found more; close what is open, "
    "or flatten it"
)
TOO_MANY = "0,000 keys and values, found more"
REMOVE = "1:1: expected plain data, found the tag {}; remove the tag"
INTEGER = "expected an integer of at most 40 digits, without leading zeros or base 60, found "
PLAINLY = "; write it plainly, or put quotes around it if it is meant as text"


def test_data_and_lines_of_yaml() -> None:
    document = parse_yaml(
        "a: 1\nb:\n  c: [x, 0x10]\n  d:\n    - e: 2024-01-01\n    - 1.5\n? f\n: ~\n'7': 1_000\n",
        "file", MachineError,
    )  # fmt: skip
    assert document.data == {
        "a": 1, "b": {"c": ["x", 16], "d": [{"e": "2024-01-01"}, 1.5]}, "f": None, "7": 1000,
    }  # fmt: skip
    assert document.lines == {
        "a": 1, "b": 2, "b.c": 3, "b.c[0]": 3, "b.c[1]": 3,
        "b.d": 4, "b.d[0]": 5, "b.d[0].e": 5, "b.d[1]": 6, "f": 7, "7": 9,
    }  # fmt: skip


def test_data_and_lines_of_json() -> None:
    text = '{"a": 1,\n "b": {"c":\n ["x", {"\\u0064": true}, []],\n "e": {}},\n "f": [-1.5e3]}'
    document = parse_json(text, "file", MachineError)
    assert document.data == {"a": 1, "b": {"c": ["x", {"d": True}, []], "e": {}}, "f": [-1500.0]}
    assert document.lines == {
        "a": 1, "b": 2, "b.c": 2, "b.c[0]": 3, "b.c[1]": 3, "b.c[1].d": 3, "b.c[2]": 3,
        "b.e": 4, "f": 5, "f[0]": 5,
    }  # fmt: skip


@pytest.mark.parametrize("text", ["[1, 2]", "3", '"x"', "[]", "{}"])
def test_documents_that_are_no_mappings(text: str) -> None:
    assert parse_json(text, "f", SweepError).data == parse_yaml(text, "f", SweepError).data


def plain(texts: st.SearchStrategy[str]) -> st.SearchStrategy[object]:
    leaves = st.none() | st.booleans() | st.integers(-(10**30), 10**30) | texts
    return st.recursive(
        leaves | st.floats(allow_nan=False),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
        max_leaves=12,
    )


@pytest.mark.slow
@profile(60)
@given(plain(st.text(max_size=8)))
def test_what_other_programs_write_is_read_back(data: object) -> None:
    assert parse_yaml(yaml.safe_dump(data), "file", MachineError).data == data
    assert parse_json(json.dumps(data), "file", MachineError).data == data


@profile(50)
@given(plain(st.text(st.characters(max_codepoint=0x7E), max_size=4)))
def test_both_readers_find_the_same_lines(data: object) -> None:
    text = json.dumps(data, indent=1)
    lines = parse_json(text, "file", MachineError).lines
    assert parse_yaml(text, "file", MachineError).lines == lines


def test_aliases_and_merges_are_copies() -> None:
    text = "a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\nc: {<<: [{x: 5}, *a]}\nd: *a\n"
    document = parse_yaml(text, "file", MachineError)
    assert document.data == {
        "a": {"x": 1, "y": 2}, "b": {"x": 1, "y": 3}, "c": {"x": 5, "y": 2}, "d": {"x": 1, "y": 2},
    }  # fmt: skip
    assert document.data["a"] is not document.data["d"]
    assert document.lines["b.y"] == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("yes", True), ("Off", False), ("~", None), ("-0b101", -5), ("+7", 7), (".5", 0.5),
        ("-1.5e+3", -1500.0), (".INF", math.inf), ("-.inf", -math.inf), ("", None), ("=", "="),
        ("!!str 1", "1"), ("!!float 1", 1.0), ("[1, {a: b}]", [1, {"a": "b"}]),
    ],
)  # fmt: skip
def test_values(text: str, expected: object) -> None:
    assert parse_yaml_value(text, "option", MachineError) == expected


def test_not_a_number() -> None:
    assert math.isnan(parse_yaml_value(".nan", "option", MachineError))
    assert math.isnan(parse_json("NaN", "file", MachineError).data)


BAD_YAML = {
    "open list": (
        "name: [1\n",
        "2:1: not valid YAML: while parsing a flow sequence, expected ',' or ']', but got "
        f"'<stream end>'. {CURE}",
    ),
    "two documents": (
        "a: 1\n---\nb: 2\n",
        "2:1: not valid YAML: expected a single document in the stream, but found another "
        f"document. {CURE}",
    ),
    "tab": ("a:\n\tb: 1\n", f"2:1: not valid YAML: expected spaces, found a tab. {CURE}"),
    "control character": (
        "a: \x01\n",
        f"1:4: not valid YAML: expected printable text, found the character #x0001. {CURE}",
    ),
    "impossible escape": (
        'a: "\\UFFFFFFFF"',
        f"1:1: not valid YAML: an escape or a version is impossible. {CURE}",
    ),
    "surrogate": (
        'a: "\\ud800"',
        "1:4: expected text, found half of a surrogate pair; write it whole",
    ),
    "unknown alias": (
        "a: *b\n",
        f"1:4: not valid YAML: found undefined alias 'b'. {CURE}",
    ),
    "key twice": (
        "a: 1\na: 2\n",
        "2:1: key 'a' is given twice, first on line 1; remove one of them",
    ),
    "inner key twice": (
        "a:\n  - b: 1\n    b: 2\n",
        "3:5: key 'a[0].b' is given twice, first on line 2; remove one of them",
    ),
    "merge twice": (
        "a: &a {}\nb: {<<: *a, <<: *a}\n",
        "2:13: key 'b.<<' is given twice, first on line 2; remove one of them",
    ),
    "merge of a text": (
        "a: {<<: x}\n",
        "1:9: expected a mapping, or a list of mappings, to merge with '<<', found x; "
        "name the anchor of a mapping",
    ),
    "number as key": (
        "a: {7: 1}\n",
        "1:5: expected a text key in a, found 7; put quotes around the key if it is meant as text",
    ),
    "list as key": (
        "? [a]\n: 1\n",
        "1:3: expected a text key in the top level, found a collection; "
        "put quotes around the key if it is meant as text",
    ),
    "Python object": (
        "a: !!python/name:os.system x\n",
        "1:4: expected plain data, found the tag '!!python/name:os.system'; remove the tag",
    ),
    "Python call": (
        "a: !!python/object/apply:os.system [x]\n",
        "1:4: expected plain data, found the tag '!!python/object/apply:os.system'; "
        "remove the tag",
    ),
    "own tag": ("a: !x 1\n", "1:4: expected plain data, found the tag '!x'; remove the tag"),
    "set": ("!!set {a}\n", REMOVE.format("'!!set'")),
    "text as map": ("!!map x\n", REMOVE.format("'!!map'")),
    "list as int": ("!!int [1]\n", REMOVE.format("'!!int'")),
    "binary": ("!!binary x\n", REMOVE.format("'!!binary'")),
    "date": (
        "!!timestamp x\n",
        REMOVE.format("'!!timestamp'"),
    ),
    "empty int": ('a: !!int ""\n', f"1:4: {INTEGER}''{PLAINLY}"),
    "empty bool": ('!!bool ""\n', f"1:1: expected true or false, found ''{PLAINLY}"),
    "null of text": ("!!null x\n", f"1:1: expected null, found 'x'{PLAINLY}"),
    "float of text": ("!!float x\n", f"1:1: expected a number, not of base 60, found 'x'{PLAINLY}"),
    "base 60": ("- 1:30\n", f"1:3: {INTEGER}'1:30'{PLAINLY}"),
    "real of base 60": (
        "1:30.5\n",
        f"1:1: expected a number, not of base 60, found '1:30.5'{PLAINLY}",
    ),
    "leading zero": ("a: 010\n", f"1:4: {INTEGER}'010'{PLAINLY}"),
    "huge integer": ("1" * 100_000, f"1:1: {INTEGER}'{'1' * 37}...'{PLAINLY}"),
    "huge hexadecimal": ("0x" + "f" * 100_000, f"1:1: {INTEGER}'0x{'f' * 35}...'{PLAINLY}"),
    "huge base 60": ("1" + ":10" * 30_000, f"1:1: {INTEGER}'1{':10' * 12}...'{PLAINLY}"),
    "holds itself": (
        "a: &a [*a]\n",
        "1:4: a value holds itself; write out what is meant, without the alias",
    ),
    "merges itself": (
        "a: &a {<<: *a}\n",
        "1:4: a value holds itself; write out what is meant, without the alias",
    ),
    "deep list": ("[" * 100_000, f"1:{DEEP + 1}: {TOO_DEEP}"),
    "deep mapping": ("{a: " * 50_000, f"1:{4 * DEEP + 1}: {TOO_DEEP}"),
    "deep lists in lines": ("- " * 50_000, f"1:{2 * DEEP + 1}: {TOO_DEEP}"),
    "deep by aliases": (
        "\n".join(["- &a0 []", *(f"- &a{i} [*a{i - 1}]" for i in range(1, 50))]),
        f"1:3: {TOO_DEEP}",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), BAD_YAML.values(), ids=BAD_YAML)
def test_bad_yaml(text: str, expected: str) -> None:
    with pytest.raises(SweepError) as caught:
        parse_yaml(text, "sweep s.yaml", SweepError, MORE)
    assert str(caught.value) == f"sweep s.yaml:{expected}"


BAD_JSON = {
    "empty": ("", "1:1: not valid JSON: expecting value"),
    "trailing comma": ('{"a": 1,\n}', "2:1: not valid JSON: expecting property name enclosed in"),
    "comment": ("[1] // x", "1:5: not valid JSON: extra data"),
    "number as key": ("{1: 2}", "1:2: not valid JSON: expecting property name enclosed in"),
    "open text": ('{"a": "b\n"}', "1:9: not valid JSON: invalid control character; write"),
    "key twice": ('{"a": 1,\n "a": 2}', "2:2: key 'a' is given twice, first on line 1; remove"),
    "inner key twice": ('[{"b": {"a": 1, "a": 2}}]', "1:17: key '[0].b.a' is given twice, first"),
    "same key by escape": ('{"a": 1, "\\u0061": 2}', "1:10: key 'a' is given twice"),
    "surrogate": ('[\n"\\ud800"]', "2:1: expected text, found half of a surrogate pair"),
    "huge integer": ("[1,\n " + "1" * 100_000 + "]", "2:2: expected an integer of at most"),
    "deep list": ("[" * 500_000, f"1:{DEEP + 1}: {TOO_DEEP}"),
    "deep but closed": ("[" * 50 + "]" * 50, f"1:{DEEP + 1}: {TOO_DEEP}"),
    "deep mapping": ('{"a":' * 100_000, f"1:{5 * DEEP + 1}: {TOO_DEEP}"),
    "many values": ("[" + "1," * 500_000 + "1]", f"1:120000: expected at most 6{TOO_MANY}"),
    "many lists": ("[" + "[]," * 500_000 + "1]", f"1:179999: expected at most 6{TOO_MANY}"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("text", "expected"), BAD_JSON.values(), ids=BAD_JSON)
def test_bad_json(text: str, expected: str) -> None:
    with pytest.raises(TraceError) as caught:
        parse_json(text, "model c.json", TraceError)
    assert str(caught.value).startswith(f"model c.json:{expected}")


NINE = [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 10)]
BOMBS = {
    "nine to the ninth": "\n".join(["a0: &a0 [x, x, x, x, x, x, x, x, x]", *NINE]),
    "merges": "\n".join(["a0: &a0 {x: 1}", *(line.replace("[", "{<<: [") + "}" for line in NINE)]),
    "many values": "[" + "x," * 200_000 + "]",
    "many keys": "\n".join(f"k{i}: {i}" for i in range(30_000)),
    "many anchors": "[" + ",".join(f"&a{i} 1" for i in range(30_000)) + "]",
    "many lists": "[" + "{}," * 100_000 + "]",
    "one text of many lines": 'a: "' + "\n" * 400_000,
    "wide aliases": "- &a [" + "1," * 9_000 + "]\n- [*a, *a, *a]",
}

SLOWEST = ("many anchors", "many lists", "many values", "one text of many lines")
"""Seconds each; the first two of all, which would never end, are what matters most."""


@pytest.mark.slow
@pytest.mark.timeout(20)  # Read to their end, the first two take hours; bench/ has the seconds.
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(text, id=name, marks=pytest.mark.slow if name in SLOWEST else ())
        for name, text in BOMBS.items()
    ],
)
def test_bombs_end(text: str) -> None:
    with pytest.raises(MachineError, match=f"{TOO_MANY}|unexpected end of stream"):
        parse_yaml(text, "file", MachineError)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"a: \xff\n", "FILE:1:4: expected UTF-8 text, found the byte 0xff; save the file"),
        (b"\xff\xfea\0", "FILE:1:1: expected UTF-8 text, found the byte 0xff; save the file as"),
        (b"a: 1\nbc\xe4: 2", "FILE:2:3: expected UTF-8 text, found the byte 0xe4"),
        (b"#" * (4 << 20), " bytes, found more; leave out what is not needed, or check that"),
    ],
)  # fmt: skip
def test_bad_files(tmp_path: Path, content: bytes, expected: str) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)
    for load in (load_yaml, load_json):
        with pytest.raises(MachineError) as caught:
            load(path, "machine file", MachineError)
        message = str(caught.value).replace(str(path), "FILE")
        assert message.startswith("machine file FILE")
        assert expected in message


def test_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}')
    assert load_yaml(path, "file", SweepError) == load_json(path, "file", SweepError)


@pytest.mark.parametrize(
    ("name", "reason"), [("absent", "No such file or directory"), ("", "Is a directory"),
    ("a\0b", "embedded null byte")],
)  # fmt: skip
def test_files_that_cannot_be_read(tmp_path: Path, name: str, reason: str) -> None:
    for load in (load_yaml, load_json):
        with pytest.raises(StepSimError, match=f"cannot be read: {reason}; name a file that can"):
            load(tmp_path / name, "file", MachineError)


def test_value_of_an_option() -> None:
    with pytest.raises(MachineError) as caught:
        parse_yaml_value("[1", "option 'x'", MachineError)
    assert str(caught.value) == (
        "option 'x': '[1', column 3: not valid YAML: while parsing a flow sequence, "
        "expected ',' or ']', but got '<stream end>'. Put quotes around it if it is meant as text."
    )
