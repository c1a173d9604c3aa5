"""``st.function``: functions of users."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stepsim.arguments import is_whole, scalar, shown, text_of
from stepsim.dtypes import DType, dtype_of
from stepsim.errors import ArgError, did_you_mean
from stepsim.graph.functions.describe import described
from stepsim.graph.functions.function import Function, Rule
from stepsim.graph.functions.polynomial import Cost, cost_of
from stepsim.graph.functions.shape import Shape

KINDS = ("number", "flag", "address", "tile")

_VALID = {"all": 0, "first": None, "max": None, "sum": None, "value": 1, "append": 2}
"""Rules for valid rows, and how many operands each names; None is any number."""


def function(
    name: str,
    shape: str,
    flops: Cost = 0,
    cycles: Cost = 0,
    values: Callable[..., Any] | None = None,
    *,
    dtype: DType | str | Sequence[DType | str | None] | None = None,
    valid: str | Sequence[Any] | None = None,
    kind: str | Sequence[str] = "number",
    padding: float | Sequence[float] = 0.0,
) -> Function:
    """Make a function of tiles for maps, accumulations and scans.

    The function is data: its type rule, symbolic FLOPs, executed FLOPs and cycles come from the
    arguments here and cannot differ, and the engine is not compiled again for it. It goes wherever
    a function of ``st.fn`` does: ``st.map(f, *xs)``, ``x.accum(f, rank, init)``,
    ``x.scan(f, rank, init)``, ``st.map_accum(f, a, b, rank, init)``. A package offers it to others
    under the entry points ``stepsim.functions``.

    Shape
    -----
    ``"m k, k n -> m n"``: rows and columns of each operand and result. Letters are sides; equal
    letters must be equal sides, and numbers are what they say. A side can be a sum, as in
    ``"a n, b n -> a+b n"``. ``"m n -> m 1, m n"`` has two results, a stream of tuples that
    ``st.unzip`` takes apart. In ``"m 1, m d; m n, n d -> m 1, m d"`` the operands before ``;`` are
    the states of an accumulation, which starts from the ``init`` of ``accum``. The first
    operand of a function that folds also starts from it. ``"same"`` is
    ``"m n -> m n"``; ``"broadcast"`` takes two tiles, ``"broadcast 3"`` three, whose sides are
    equal or 1, and ``m`` and ``n`` are the result's.

    Parameters
    ----------
    name : for reports and messages.
    shape : see above.
    flops : FLOPs of one firing: an int, a sympy expression of the letters, or a function whose
        parameters are letters, ``lambda m, n: 5*m*n + 3*m``. Sums of products with whole
        coefficients from 0.
    cycles : cycles in addition to those of the FLOPs, written likewise.
    values : arrays of the operands to the array of the result, or a tuple of arrays; needed to
        evaluate programs.
    dtype : scalar type of the results, one or one for each; None keeps that of the first operand,
        in accumulations that of the state: of its ``init``, or of the first element of numbers.
    valid : which rows of the results are not padding: ``"all"``; ``"first"``, those of the first
        operand with as many rows; ``"max"`` or ``"sum"`` of those of the operands; ``("first", 1)``
        names operands; ``("value", i)``, the number in operand ``i`` of kind ``address``;
        ``("append", i, k)``, those of ``i`` and all rows of ``k``. None: ``"first"`` of the
        operands that have the result's letter, ``"max"`` of broadcast ones.
    kind : of the operands, one or one for each: ``number``, ``flag`` (numbers or bools),
        ``address`` (1x1 tiles of u64) or any ``tile``.
    padding : what takes the place of padding in sides of operands that no result has, and in the
        elements of folds: the number that does not count, 0 for sums and ``-inf`` for maxima.

    Fires
    -----
    Once per element; ``ceil(flops / compute_bw) + cycles`` cycles, or longer where tiles are read
    from or written to on-chip memory.

    Raises
    ------
    ArgError : an argument cannot be read, contradicts another, or the cost is not a polynomial.

    Example
    -------
    >>> scaled = st.function("scaled", "m n, m 1 -> m n", lambda m, n: 2 * m * n + m,
    ...                      values=lambda x, s: 2 * x * s)
    >>> with st.Program(compute_bw=16) as p:
    ...     x = st.linear_load(np.ones((8, 4), np.float32), (8, 4))
    ...     s = st.linear_load(np.ones((8, 1), np.float32), (8, 1))
    ...     st.map(scaled, x, s).consume()
    >>> p.metrics().flops
    72
    """
    where = f"function {shown(name)}"
    if not text_of(f"{where}: name", name):
        raise ArgError("function: name must not be empty")
    parsed = Shape.parse(where, shape)
    if values is not None and not callable(values):
        raise ArgError(f"{where}: values must be a function or None, found {shown(values)}")
    letters = parsed.letters
    count, results = len(parsed.operands), len(parsed.results)
    made = Function(
        name,
        parsed,
        cost_of(f"{where}: flops", flops, letters),
        cost_of(f"{where}: cycles", cycles, letters),
        values,
        kinds=_kinds(where, kind, count),
        dtypes=_dtypes(where, dtype, parsed, results),
        valid=(_valid(where, valid, count),) * results if valid is not None else (),
        padding=_paddings(where, padding, count),
    )
    if valid is not None and made.valid[0][0] == "value":
        _counts(where, made, made.valid[0][1])
    object.__setattr__(made, "__doc__", described(made, f"{name}, a function of the user's own."))
    return made


def _dtypes(where: str, dtype: Any, shape: Shape, results: int) -> tuple[int | DType, ...]:
    listed = isinstance(dtype, list | tuple)
    given = list(dtype) if listed else [dtype] * results
    if len(given) != results:
        raise ArgError(f"{where}: dtype has {len(given)} types for {results} results")
    try:
        return tuple(
            (j if shape.states else 0) if one is None else dtype_of(one)
            for j, one in enumerate(given)
        )
    except Exception as error:
        raise ArgError(f"{where}: dtype: {error}") from error


def _kinds(where: str, kind: Any, count: int) -> tuple[str, ...]:
    given = tuple(kind) if isinstance(kind, list | tuple) else (kind,) * count
    if len(given) != count:
        raise ArgError(f"{where}: kind has {len(given)} entries for {count} operands")
    for one in given:
        if not isinstance(one, str) or one not in KINDS:
            raise ArgError(
                f"{where}: kind must be one of {', '.join(KINDS)}, found {shown(one)}"
                f"{did_you_mean(shown(one, str), KINDS)}"
            )
    return given


def _paddings(where: str, padding: Any, count: int) -> tuple[float, ...]:
    given = tuple(padding) if isinstance(padding, list | tuple) else (padding,) * count
    if len(given) != count:
        raise ArgError(
            f"{where}: padding must be a number, or one for each of the {count} operands, found "
            f"{shown(padding)}"
        )
    return tuple(scalar(f"{where}: padding", p) for p in given)


def _valid(where: str, valid: Any, count: int) -> Rule:
    rule, *operands = valid if isinstance(valid, list | tuple) and valid else (valid,)
    known = ", ".join(_VALID)
    if not isinstance(rule, str) or rule not in _VALID:
        raise ArgError(f"{where}: valid must be one of {known}, found {shown(valid)}")
    for one in operands:
        if not is_whole(one) or not 0 <= one < count:
            raise ArgError(f"{where}: valid names operand {shown(one)}, expected 0 to {count - 1}")
    wanted = _VALID[rule]
    if wanted is not None and len(operands) != wanted:
        raise ArgError(
            f"{where}: valid {rule!r} names {wanted} operand{'s' * (wanted != 1)}, found "
            f"{len(operands)}"
        )
    if rule == "all":
        return ("rows",)
    if wanted is None:
        return rule, tuple(operands or range(count))
    return (rule, *operands)


def _counts(where: str, fn: Function, operand: int) -> None:
    """Refuse a number of valid rows that a timing run would not know."""
    element = operand >= fn.shape.states
    if element and fn.kinds[operand] == "address":
        return
    raise ArgError(
        f"{where}: valid ('value', {operand}) takes the number in an element of kind 'address', "
        f"operand {operand} is {f'a {fn.kinds[operand]}; pass kind=' if element else 'a state'}"
    )
