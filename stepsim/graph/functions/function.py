"""Functions of tiles: data from which types, FLOPs, cycles, values and the engine's record come."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property, lru_cache
from typing import Any

from stepsim.frozen import frozen
from stepsim.graph.functions.polynomial import ZERO, Polynomial
from stepsim.graph.functions.shape import Shape, broadcast
from stepsim.graph.functions.table import by_name
from stepsim.graph.sizes.sizes import Size
from stepsim.graph.types import U64_TILE, DType, ElementType, Tile

Rule = tuple[Any, ...]
"""How a number of a result follows from operands, such as ``("first", (0,))``."""

_FROM_ZERO: tuple[Rule, ...] = (("add", 0, 1), ("max", 0, 1))
"""Rules for whole numbers that accumulate from a state of 0."""

Record = dict[str, Any]
"""A function as the engine reads it, in plain numbers, lists and strings."""


@frozen(slots=False, eq=False)
class Function:
    """A function of tiles; ``st.fn`` has the standard ones, :func:`stepsim.function` makes others.

    Its type rule, symbolic FLOPs, executed FLOPs and cycles all come from these attributes.

    Attributes
    ----------
    name, arguments : what it is called, and the arguments it was made with.
    shape : rows and columns of operands (states first) and results.
    flops : FLOPs of one firing, of the letters of ``shape``.
    cycles : cycles of one firing in addition to ``ceil(flops / compute_bw)``, of the letters.
    values : arrays of the operands to the array, or tuple of arrays, of the results.
    kinds : what each operand is: ``number``, ``flag``, ``address`` or any ``tile``.
    dtypes : scalar type of each result: a type, or the operand that has it.
    valid, numbers : rules for the valid rows of each result, and for the integer in it.
    padding : what stands in for padding that the function reduces, for each operand.
    sized : ``values`` takes the tiles too, before the arrays, for their valid rows and columns.
    start : scalars of the states before the first element, by default.
    transposes : which operands of a matmul are stored transposed; None for other functions.
    packs : the side, ``rows`` or ``cols``, that grows with every element.
    least : rows and columns that the first operand must have.
    summed : the function whose results an accumulation adds up.
    folded : an accumulation whose state is the first operand of a function.
    standard : one of ``st.fn``, which ``Program(flop_weights=...)`` knows by its name.
    integers : the rule for whole numbers, for functions that have :attr:`whole`.
    of_whole : the function that has this one as :attr:`whole`.
    """

    name: str
    shape: Shape
    flops: Polynomial = ZERO
    cycles: Polynomial = ZERO
    values: Callable[..., Any] | None = None
    kinds: tuple[str, ...] = ()
    dtypes: tuple[int | DType, ...] = (0,)
    valid: tuple[Rule, ...] = ()
    numbers: tuple[Rule | None, ...] = (None,)
    padding: tuple[float, ...] = ()
    arguments: tuple[Any, ...] = ()
    sized: bool = False
    start: float = 0.0
    transposes: tuple[bool, bool] | None = None
    packs: str | None = None
    least: tuple[int, int] = (0, 0)
    summed: Function | None = None
    folded: bool = False
    standard: bool = False
    work: Polynomial = ZERO
    integers: Rule | None = None
    of_whole: Function | None = None
    doc: str | Callable[[], str] = field(default="")

    def __post_init__(self) -> None:
        put = object.__setattr__
        count = len(self.shape.operands)
        put(self, "kinds", self.kinds or ("number",) * count)
        put(self, "padding", self.padding or (0.0,) * count)
        put(self, "valid", self.valid or usual_valid(self.shape))
        results = len(self.shape.results)
        if len(self.dtypes) != results:
            put(self, "dtypes", (self.dtypes[0],) * results)
        if len(self.numbers) != results:
            put(self, "numbers", (None,) * results)

    @property
    def arity(self) -> int:
        """Operands, states included."""
        return len(self.shape.operands)

    @property
    def elements(self) -> int:
        """Operands that come from streams."""
        return self.arity - self.shape.states

    @property
    def results(self) -> int:
        """Number of results."""
        return len(self.shape.results)

    def __str__(self) -> str:
        if not self.arguments:
            return self.name
        return f"{self.name}({', '.join(str(a) for a in self.arguments)})"

    def __repr__(self) -> str:
        return f"<function {self}: {self.shape.text}>"

    def __reduce__(self) -> Any:
        if self.of_whole is not None:
            return on_whole_numbers, (self.of_whole, (U64_TILE,) * self.arity)
        if self.standard:
            return by_name, (self.name, self.arguments)
        return super().__reduce__()

    def identity(self) -> str:
        """Everything that distinguishes it in a run, as a text."""
        if self.of_whole is not None:
            return f"{self} of whole numbers"
        return str(self) if self.standard else f"{self} {self.record()} {self.dtypes}"

    def stated(self) -> str:
        """What distinguishes it in a run, for readers: name, shape, costs, and other rules."""
        if self.standard:
            return str(self)
        said = [self.shape.text, f"{self.flops} FLOPs"]
        said += [f"{self.cycles} cycles"] if self.cycles else []
        rules = (
            ("results of", self.dtypes, (0,) * self.results),
            ("operands are", self.kinds, ("number",) * self.arity),
            ("valid rows", self.valid, usual_valid(self.shape)),
            ("padding", self.padding, (0.0,) * self.arity),
            ("numbers", self.numbers, (None,) * self.results),
            ("packs", self.packs, None),
        )
        for what, rule, usual in rules:
            if rule != usual:
                said.append(f"{what} {_words(rule)}")
        return f"{self} ({', '.join(said)})"

    def cost(self, operands: Sequence[Tile], results: Sequence[Tile]) -> Size:
        """FLOPs of one firing for tiles of these types."""
        tiles = (*operands, *results)
        sizes = [side.size for tile in tiles for side in (tile.rows, tile.cols)]
        return self._by_side.at(sizes)

    @cached_property
    def _by_side(self) -> Polynomial:
        """Its FLOPs in the sides of operands and results."""
        return self.flops.renamed(self.shape.sides)

    def weighted(self, weight: int) -> Function:
        """The same with ``weight`` FLOPs per unit of its work."""
        return replace(self, flops=self.work.scaled(weight))

    def record(
        self, operands: tuple[DType, ...] | None = None, results: tuple[DType, ...] | None = None
    ) -> Record:
        """The function as the engine reads it, for operands and results of some scalar types.

        It is shared by all who ask for it.
        """
        return _record(self, operands, results)

    @cached_property
    def whole(self) -> Function | None:
        """The same of whole numbers, 1x1 tiles of u64 or u32; None if there is none.

        It takes a cycle and no FLOPs, as other functions of whole numbers, and the engine computes
        the numbers that it makes.
        """
        if self.integers is None:
            return None
        sides = ", ".join(["1 1"] * self.arity)
        return replace(
            self, shape=Shape.parse(self.name, f"{sides} -> 1 1"), flops=ZERO, work=ZERO,
            cycles=Polynomial.of(times=1), kinds=("address",) * self.arity, dtypes=(DType.u64,),
            valid=(("rows",),), numbers=(self.integers,), padding=(), start=0.0, values=None,
            integers=None, of_whole=self,
        )  # fmt: skip

    @cached_property
    def folding(self) -> Function | None:
        """The accumulation whose state is the first operand; None when it has other sides."""
        shape = self.shape
        if self.of_whole is not None and self.numbers[0] in _FROM_ZERO:
            made = Shape.parse(self.name, "1 1; 1 1 -> 1 1")
            return replace(self, shape=made, folded=True, standard=False)
        if shape.states or self.results != 1 or self.arity < 2 or self.numbers != (None,):
            return None
        if self.sized:  # Its values depend on valid rows, and all of a first state are.
            return None
        if shape.broadcast:
            made = broadcast(self.arity, 1)
            valid: tuple[Rule, ...] = (("rows",),)
        elif shape.results[0] == shape.operands[0] and self.kinds[0] == "number":
            text = shape.text.replace(",", ";", 1)
            made = Shape(text, shape.operands, shape.results, 1)
            valid = usual_valid(made)
        else:
            return None
        if self.dtypes != (0,):
            return None
        if self.valid != usual_valid(shape):
            valid = self.valid
        return replace(self, shape=made, valid=valid, folded=True, standard=False)

    @cached_property
    def summing(self) -> Function | None:
        """The accumulation that adds up the results, which is free for matmuls."""
        shape = self.shape
        if shape.states or self.results != 1 or self.arity < 2 or self.numbers != (None,):
            return None
        if not all(isinstance(d, int) for d in self.dtypes) or self.values is None:
            return None
        if shape.broadcast:
            made = broadcast(self.arity + 1, 1)
            area = Polynomial.of("m", "n")
        else:
            (sides,) = shape.results
            made = Shape(f"; {shape.text}", (sides, *shape.operands), shape.results, 1)
            if sides[0].letter is None or sides[1].letter is None:
                return None
            area = Polynomial.of(sides[0].letter, sides[1].letter)
        added = ZERO if self.transposes is not None else area
        return replace(
            self, shape=made, flops=self.flops + added,
            kinds=("number", *self.kinds), padding=(0.0, *self.padding),
            valid=(("rows",),) if shape.broadcast else tuple(_shifted(r) for r in self.valid),
            dtypes=tuple(d + 1 if isinstance(d, int) else d for d in self.dtypes), start=0.0,
            summed=self, standard=False,
        )  # fmt: skip


class _Docstring:
    """That of the class, and of each function what says it; most are never asked for theirs."""

    def __init__(self, of_class: str) -> None:
        self._of_class = of_class

    def __get__(self, instance: Function | None, owner: Any = None) -> str:
        if instance is None:
            return self._of_class
        if callable(instance.doc):
            object.__setattr__(instance, "doc", instance.doc())
        return str(instance.doc) or self._of_class


Function.__doc__ = _Docstring(str(Function.__doc__))  # type: ignore[assignment]


def _words(rule: Any) -> str:
    return " ".join(map(_words, rule)) if isinstance(rule, tuple) else str(rule)


def on_whole_numbers(fn: Function, operands: Sequence[ElementType]) -> Function:
    """The function that is applied to operands of these types: if all are whole numbers, theirs."""
    if fn.integers is None or not all(isinstance(t, Tile) and t.is_address for t in operands):
        return fn
    return fn.whole or fn


def accumulating(fn: Function, elements: int) -> Function | None:
    """The function as an accumulation over this many elements; None if it cannot be one.

    A function with states already is one. A function with one more operand than there are
    elements folds: its first operand becomes the state. The results of a function that takes
    exactly the elements are added up.
    """
    if fn.shape.states:
        return fn if fn.elements == elements else None
    if elements == fn.arity - 1:
        return fn.folding
    return fn.summing if elements == fn.arity else None


def _shifted(rule: Rule) -> Rule:
    """The rule of a function for the same one behind a state."""
    if rule[0] in ("first", "max", "sum"):
        return rule[0], tuple(i + 1 for i in rule[1])
    return rule if rule[0] == "rows" else (rule[0], rule[1] + 1, *rule[2:])


def usual_valid(shape: Shape) -> tuple[Rule, ...]:
    """Valid rows of results of a function that declares nothing else.

    Those of the first element with the rows of the result; of broadcast operands the most.
    """
    if shape.broadcast:
        return (("max", tuple(range(len(shape.operands)))),)
    rules: list[Rule] = []
    for rows, _ in shape.results:
        owners = tuple(
            i
            for i in range(shape.states, len(shape.operands))
            if rows.letter is not None and shape.operands[i][0] == rows
        )
        rules.append(("first", owners) if owners else ("rows",))
    return tuple(rules)


@lru_cache(maxsize=1 << 12)
def _record(
    fn: Function, operands: tuple[DType, ...] | None, results: tuple[DType, ...] | None
) -> Record:
    shape, sides = fn.shape, fn.shape.sides
    made = [
        _result(fn, j, operands, None if results is None else results[j]) for j in range(fn.results)
    ]
    checks = []
    if not shape.broadcast:
        for i, tile in enumerate(shape.operands):
            for j, side in enumerate(tile):
                if side.letter is None or sides[side.letter] != 2 * i + j:
                    checks.append([2 * i + j, side.renamed(sides).listed()])
    first = shape.states
    twins = fn.transposes is not None and (
        operands is None or operands[first] is operands[first + 1]
    )
    return {
        "name": fn.name,
        "operands": fn.arity,
        "states": shape.states,
        "checks": checks,
        "same_bits": [[first, first + 1]] if twins else [],
        "adopts": _adopts(fn, sides),
        "results": made,
        "flops": fn.flops.renamed(sides).listed(),
        "cycles": fn.cycles.renamed(sides).listed(),
    }


def _result(
    fn: Function, j: int, operands: tuple[DType, ...] | None, dtype: DType | None
) -> dict[str, Any]:
    shape, sides = fn.shape, fn.shape.sides
    if shape.broadcast:
        # Elements before the state, as the state of one row or column is what is broadcast.
        order = (*range(shape.states, fn.arity), *range(shape.states))
        rows, cols = ({"broadcast": [2 * i + side for i in order]} for side in (0, 1))
    else:
        rows, cols = ({"poly": side.renamed(sides).listed()} for side in shape.results[j])
    rule = fn.dtypes[j]
    width: Any
    if isinstance(rule, DType):
        width = rule.bits
    elif dtype is not None and operands is not None and operands[rule] is not dtype:
        width = dtype.bits
    else:
        # The element's own: states are as wide as the results unless the types say otherwise.
        own = rule if rule >= shape.states else _wide(fn, rule)
        width = ["operand", own]
        if dtype is not None and operands is not None and operands[own] is not dtype:
            width = dtype.bits
    number = fn.numbers[j]
    return {
        "rows": rows,
        "cols": cols,
        "valid": [list(part) if isinstance(part, tuple) else part for part in fn.valid[j]],
        "bits": width,
        "value": None if number is None else list(number),
        "rd": ["operand", fn.arity - 1] if fn.packs else None,
    }


def _wide(fn: Function, state: int) -> int:
    """The element whose width a state has."""
    return fn.shape.states if fn.elements == 1 or fn.shape.broadcast else state


def _adopts(fn: Function, sides: Mapping[str, int]) -> list[list[Any]]:
    """The sides that states without rows or columns take from the first elements."""
    shape = fn.shape
    if fn.packs == "rows":
        return [[0, [], Polynomial.of(3).listed(), "both"]]
    if fn.packs == "cols":
        return [[0, Polynomial.of(2).listed(), [], "cols"]]
    found: list[list[Any]] = []
    for i in range(shape.states):
        if shape.broadcast:
            one = Polynomial.of().listed()
            found.append([i, one, one, "any"])
            continue
        polys = [side.renamed(sides) for side in shape.operands[i]]
        if all(side >= 2 * shape.states for poly in polys for side in poly.variables()):
            found.append([i, polys[0].listed(), polys[1].listed(), "any"])
    return found
