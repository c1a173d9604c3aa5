"""How the problems of a document are worded, whatever the document is about."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from stepsim.wording import describe_problems, expectations


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")

    size: Annotated[int, Field(strict=True, ge=1, le=1 << 40)] = Field(description="bytes")
    share: Annotated[float, Field(ge=0.5)] = 1.0


class Outer(BaseModel):
    model_config = ConfigDict(extra="forbid")

    inner: Inner | None = None
    kind: Literal["fast", "slow"] = "fast"
    names: list[Annotated[str, Field(strict=True)]] = []
    sizes: Annotated[list[int], Field(min_length=1)] | None = None
    choices: list[Literal["a", "b", "c"]] = []
    values: dict[str, int | bool | None] = {}
    axes: dict[str, list[int | str]] = {}
    text: Annotated[str, Field(min_length=1)] | dict[str, Any] = "x"
    one: Literal["only"] = "only"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"kinds": 1}, "kinds: unknown key 'kinds'; did you mean 'kind'? Known here: axes,"),
        ({"inner": {"sise": 1, "size": 1}}, "inner.sise: unknown key 'sise'; did you mean 'size'?"),
        ({"inner": {}}, "inner.size: missing; expected an integer from 1 to 2**40 (bytes)"),
        ({"inner": {"size": True}}, "inner.size: expected an integer from 1 to 2**40 (bytes), f"),
        ({"inner": {"size": 1, "share": 0}}, "inner.share: expected a number from 0.5, found 0"),
        ({"inner": 3}, "inner: expected a mapping with the keys size, share or null, found 3"),
        ({"kind": "fas"}, "kind: expected 'fast' or 'slow', found the text 'fas'; did you mean"),
        ({"kind": None}, "kind: expected 'fast' or 'slow', found null"),
        ({"names": {}}, "names: expected a list of texts, found an empty mapping"),
        ({"names": ["a", 1]}, "names[1]: expected a text, found 1"),
        ({"sizes": []}, "sizes: expected a non-empty list of integers or null, found an empty"),
        ({"sizes": [1, "x"]}, "sizes[1]: expected an integer, found the text 'x'"),
        ({"choices": [1]}, "choices[0]: expected 'a', 'b' or 'c', found 1"),
        ({"choices": "a"}, "choices: expected a list of 'a', 'b' or 'c', found the text 'a'"),
        ({"values": {"x": [1, None]}},
         "values.x: expected an integer, true or false or null, found the list [1, null]"),
        ({"values": {"x": {"y": 1}}}, "values.x: expected an integer, true or false or null, f"),
        ({"axes": {"x": [1, None]}}, "axes.x[1]: expected an integer or a text, found null"),
        ({"text": ["long"] * 9}, "text: expected a non-empty text or a mapping, found a list"),
        ({"values": {1: 2}}, "values[1]: input should be a valid string, found 1"),
        ({"text": 1.5}, "text: expected a non-empty text or a mapping, found 1.5"),
        ({"one": "y" * 99}, f"one: expected 'only', found the text '{'y' * 60}'..."),
    ],
)  # fmt: skip
def test_problems(data: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Outer.model_validate(data)
    (problem,) = described(caught.value)
    assert problem.startswith(expected)


def described(error: ValidationError, lines: dict[str, int] | None = None) -> list[str]:
    return describe_problems(error.errors(include_url=False), Outer.model_json_schema(), lines)


def test_problems_are_in_the_order_of_their_lines() -> None:
    with pytest.raises(ValidationError) as caught:
        Outer.model_validate({"one": 1, "kind": 2, "names": 3})
    lines = {"names": 1, "one": 2}
    assert [text.split(":")[0] for text in described(caught.value, lines)] == [
        "kind", "line 1, names", "line 2, one",
    ]  # fmt: skip


def test_expectations_are_those_of_all_values_in_sections() -> None:
    found = expectations(Outer.model_json_schema())
    assert found["inner.size"] == "an integer from 1 to 2**40 (bytes)"
    assert found["one"] == "'only'"
    assert "inner" not in found
