"""Records of functions of tiles as integers of an image.

A record (made by :meth:`stepsim.graph.functions.function.Function.record`) is checked in full here,
so that the engine need not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from stepsim.frozen import frozen
from stepsim.kernels import RECORD_RESULTS, RULE_WORDS, Adopt, Side, Valid, Value
from stepsim.lowering.rows.row import refused

if TYPE_CHECKING:
    from stepsim.lowering.network import UnitSpec

_KEYS: Final = (
    "name", "operands", "states", "checks", "same_bits", "adopts", "results", "flops", "cycles",
)  # fmt: skip
_RESULT_KEYS: Final = ("rows", "cols", "valid", "bits", "value", "rd")
_MOST_OPERANDS: Final = 1024
_MOST_BITS: Final = 8192
_LARGEST: Final = (1 << 62) - 1


@frozen
class EncodedFunction:
    """A record as integers, and the properties that its unit needs."""

    words: tuple[int, ...]
    operands: int
    states: int
    results: int
    has_flops: bool


class _Refusal(Exception):
    """What is wrong with a record; the caller knows the unit."""


def encode_function(spec: UnitSpec, record: Mapping[str, Any], model: str) -> EncodedFunction:
    """Check a record and lay it out as described in :mod:`stepsim.kernels.functions.records`.

    In the model ``step-2026`` a broadcasting accumulation keeps the valid rows of its element, or
    of its state where the element has fewer rows; in ``step-2025`` all rows become valid.

    Raises
    ------
    LoweringError
        The record is not valid; the message names the entry.
    """
    try:
        return _Encoding(record, model).encoded()
    except _Refusal as refusal:
        name = record.get("name") if isinstance(record, Mapping) else None
        raise refused(spec, f"the record of function {name!r} cannot be used: {refusal}") from None


def _require(holds: bool, problem: str) -> None:
    if not holds:
        raise _Refusal(problem)


def is_int(value: object) -> bool:
    """Whether it is an int but not a bool."""
    return isinstance(value, int) and not isinstance(value, bool)


def _whole(value: object, least: int, most: int, what: str) -> int:
    if not (isinstance(value, int) and is_int(value) and least <= value <= most):
        raise _Refusal(f"{what} is {value!r}, expected an int from {least} to {most}")
    return value


def _items(value: object, what: str) -> Sequence[Any]:
    if not isinstance(value, list | tuple):
        raise _Refusal(f"{what} is {value!r}, expected a list")
    return value


class _Encoding:
    """One record on its way to integers."""

    def __init__(self, record: Mapping[str, Any], model: str) -> None:
        _require(isinstance(record, Mapping), f"found {record!r}, expected a dict")
        self._keys(record, _KEYS, "the record")
        self.record = record
        self.n = _whole(record["operands"], 1, _MOST_OPERANDS, "operands")
        self.states = _whole(record["states"], 0, self.n - 1, "states")
        results = _items(record["results"], "results")
        _require(0 < len(results) <= _MOST_OPERANDS, f"it has {len(results)} results")
        _require(
            self.states in (0, len(results)),
            f"it has {self.states} states and {len(results)} results, expected as many",
        )
        self.results = [self._result(j, result) for j, result in enumerate(results)]
        self.model = model

    @staticmethod
    def _keys(given: Mapping[str, Any], known: tuple[str, ...], what: str) -> None:
        for key in known:
            _require(key in given, f"{what} has no entry {key!r}")
        for key in given:
            _require(key in known, f"{what} has an unknown entry {key!r}")

    def _result(self, j: int, result: object) -> Mapping[str, Any]:
        if not isinstance(result, Mapping):
            raise _Refusal(f"result {j} is {result!r}, expected a dict")
        self._keys(result, _RESULT_KEYS, f"result {j}")
        return result

    def encoded(self) -> EncodedFunction:
        record, count = self.record, len(self.results)
        every = 2 * (self.n + count)
        flops = self._polynomial(record["flops"], every, "flops")
        checks = [self._check(check, every) for check in _items(record["checks"], "checks")]
        early = [words for words, names_result in checks if not names_result]
        late = [words for words, names_result in checks if names_result]
        shapes: list[int] = []
        for entries in (
            [self._adopt(entry) for entry in _items(record["adopts"], "adopts")],
            early,
            [self._pair(pair) for pair in _items(record["same_bits"], "same_bits")],
        ):
            shapes += [len(entries), *(word for entry in entries for word in entry)]
        for j, result in enumerate(self.results):
            shapes += self._side(result["rows"], f"rows of result {j}")
            shapes += self._side(result["cols"], f"cols of result {j}")
            shapes.append(self._bits(result["bits"], f"bits of result {j}"))
        shapes += [len(late), *(word for entry in late for word in entry)]
        shapes += flops
        shapes += self._polynomial(record["cycles"], every, "cycles")
        lists_at = RECORD_RESULTS + RULE_WORDS * count + len(shapes)
        rules: list[int] = []
        lists: list[int] = []
        for j, result in enumerate(self.results):
            kind, listed = self._valid(result, j)
            rules += [kind, lists_at + len(lists), len(listed)]
            rules += self._value(result["value"], f"value of result {j}")
            rules.append(self._memory(result["rd"], f"rd of result {j}"))
            lists += listed
        return EncodedFunction(
            (self.n, self.states, count, *rules, *shapes, *lists),
            self.n, self.states, count, flops != [0],
        )  # fmt: skip

    def _operand(self, value: object, what: str) -> int:
        return _whole(value, 0, self.n - 1, f"an operand in {what}")

    def _polynomial(self, terms: object, sides: int, what: str) -> list[int]:
        words = [len(_items(terms, what))]
        for term in _items(terms, what):
            _require(
                isinstance(term, list | tuple) and len(term) == 2,
                f"a term of {what} is {term!r}, expected [coefficient, [side, ...]]",
            )
            factors = _items(term[1], f"the sides of a term of {what}")
            words.append(_whole(term[0], -_LARGEST, _LARGEST, f"a coefficient of {what}"))
            words.append(len(factors))
            words += [_whole(side, 0, sides - 1, f"a side in {what}") for side in factors]
        return words

    def _check(self, check: object, sides: int) -> tuple[list[int], bool]:
        parts = _items(check, "a check")
        _require(len(parts) == 2, f"a check is {check!r}, expected [side, polynomial]")
        side = _whole(parts[0], 0, sides - 1, "the side of a check")
        words = [side, *self._polynomial(parts[1], sides, "a check")]
        used = [side, *(factor for term in parts[1] for factor in term[1])]
        return words, max(used) >= 2 * self.n

    def _pair(self, pair: object) -> list[int]:
        parts = _items(pair, "an entry of same_bits")
        _require(len(parts) == 2, f"an entry of same_bits is {pair!r}, expected two operands")
        return [self._operand(i, "same_bits") for i in parts]

    def _adopt(self, entry: object) -> list[int]:
        parts = _items(entry, "an entry of adopts")
        known = {kind.name.lower(): kind for kind in Adopt}
        _require(
            len(parts) == 4 and isinstance(parts[3], str) and parts[3] in known,
            f"an entry of adopts is {entry!r}, expected [state, rows, cols, one of "
            f"{', '.join(known)}]",
        )
        _require(self.states > 0, "it adopts a state but has no states")
        state = _whole(parts[0], 0, self.states - 1, "a state in adopts")
        words = [state, int(known[parts[3]])]
        for polynomial in parts[1:3]:
            words += self._polynomial(polynomial, 2 * self.n, "adopts")
        return words

    def _side(self, rule: object, what: str) -> list[int]:
        if isinstance(rule, Mapping) and len(rule) == 1:
            if "poly" in rule:
                return [Side.POLYNOMIAL, *self._polynomial(rule["poly"], 2 * self.n, what)]
            if "broadcast" in rule:
                sides = _items(rule["broadcast"], what)
                _require(len(sides) > 0, f"{what} broadcasts no side")
                checked = [_whole(side, 0, 2 * self.n - 1, f"a side in {what}") for side in sides]
                return [Side.BROADCAST, len(checked), *checked]
        raise _Refusal(f"{what} is {rule!r}, expected {{'poly': ...}} or {{'broadcast': ...}}")

    def _bits(self, rule: object, what: str) -> int:
        """An operand from 0, or a number of bits below 0."""
        if isinstance(rule, list | tuple) and len(rule) == 2 and rule[0] == "operand":
            return self._operand(rule[1], what)
        if isinstance(rule, int) and is_int(rule) and 1 <= rule <= _MOST_BITS:
            return -rule
        raise _Refusal(f"{what} is {rule!r}, expected ['operand', i] or 1..{_MOST_BITS}")

    def _valid(self, result: Mapping[str, Any], j: int) -> tuple[int, list[int]]:
        rule, what = result["valid"], f"valid of result {j}"
        match rule:
            case ["rows"]:
                broadcast = "broadcast" in result["rows"] and self.states > 0
                if self.model == "step-2026" and broadcast:
                    return Valid.FIRST, [*range(self.states, self.n), j]
                return Valid.ROWS, []
            case ["first" | "max" | "sum" as name, [_, *_] as listed]:
                return Valid[name.upper()], [self._operand(i, what) for i in listed]
            case ["value", i]:
                return Valid.VALUE, [self._operand(i, what)]
            case ["append" | "packed" as name, i, k]:
                return Valid[name.upper()], [self._operand(i, what), self._operand(k, what)]
            case ["slice", i, start]:
                return Valid.SLICE, [self._operand(i, what), _whole(start, 0, _LARGEST, what)]
        raise _Refusal(
            f"{what} is {rule!r}, expected ['rows'], ['first' | 'max' | 'sum', [operand, ...]], "
            "['value', operand], ['append' | 'packed', operand, operand] or "
            "['slice', operand, row]"
        )

    def _value(self, rule: object, what: str) -> list[int]:
        match rule:
            case None:
                return [Value.NONE, 0, 0, 0]
            case ["keep", i]:
                return [Value.KEEP, self._operand(i, what), 0, 0]
            case ["constant", c]:
                return [Value.CONSTANT, _whole(c, -_LARGEST, _LARGEST, what), 0, 0]
            case ["equal" | "plus" | "minus" | "times" | "divided" as name, i, c]:
                number = _whole(c, int(name == "divided"), _LARGEST, what)
                return [Value[name.upper()], self._operand(i, what), number, 0]
            case ["add" | "sub" | "mul" | "max" | "min" | "eq" | "ne" | "lt" | "le" as name, i, j]:
                return [Value[name.upper()], self._operand(i, what), self._operand(j, what), 0]
            case ["select", i, j, k]:
                return [Value.SELECT, *(self._operand(n, what) for n in (i, j, k))]
            case ["address", i, j, stride]:
                first, second = self._operand(i, what), self._operand(j, what)
                return [Value.ADDRESS, first, second, _whole(stride, 1, _LARGEST, what)]
        raise _Refusal(
            f"{what} is {rule!r}, expected None, ['keep', operand], ['constant', number], "
            "['equal' | 'plus' | 'minus' | 'times' | 'divided', operand, number], "
            "['add' | 'sub' | 'mul' | 'max' | 'min' | 'eq' | 'ne' | 'lt' | 'le', operand, "
            "operand], ['select', flag, operand, operand] or ['address', index, length, stride]"
        )

    def _memory(self, rule: object, what: str) -> int:
        if rule is None:
            return -1
        if isinstance(rule, list | tuple) and len(rule) == 2 and rule[0] == "operand":
            # For members of a routed tuple, the tuple records where they are stored.
            _require(
                self.n - self.states == 1, f"{what} is {rule!r}, but there are several elements"
            )
            return self._operand(rule[1], what)
        raise _Refusal(f"{what} is {rule!r}, expected None or ['operand', i]")
