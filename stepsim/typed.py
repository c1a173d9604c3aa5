"""Checks of users' arguments against the annotations of what they call."""

from __future__ import annotations

import ast
import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, ParamSpec, TypeVar

from stepsim.errors import ArgError
from stepsim.frozen import NamedTuple
from stepsim.shown import shown

__all__ = ["check_fields", "typed", "typed_but", "typed_class", "typed_fields"]

_LARGEST = 1 << 256
"""Nothing is as many; Python takes seconds to compute with numbers of thousands of digits, and does
not write them out."""

_P = ParamSpec("_P")
_R = TypeVar("_R")
_C = TypeVar("_C", bound=type)


class _Kind(NamedTuple):
    """What an annotation allows: in words, one and several, and as a test."""

    holds: Callable[[Any], bool]
    one: str
    many: str


def typed(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Refuse arguments of other types than the annotations say, before the function sees them.

    For what users call and programs do not call millions of times: an argument takes a fraction of
    a microsecond. Numbers are of any type that counts as one, numpy's included, but no bool;
    an int is below 2**256.
    What an annotation cannot say, ranges above all, is checked by the function.

    Raises
    ------
    ArgError
        The first argument of another type, with its name, what is expected, and what was found.
    """
    return _typed(function, ())


def typed_but(*names: str) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """The same but for these arguments, of which the function itself says more."""
    return lambda function: _typed(function, names)


def _typed(function: Callable[_P, _R], but: tuple[str, ...]) -> Callable[_P, _R]:
    checks: dict[str, _Kind] = {}
    places: list[tuple[str, _Kind | None]] = []
    rest: list[_Kind | None] = []

    def prepare() -> None:
        """Read the annotations, at the first call: the names in them may be imported late."""
        signature = inspect.signature(function)
        for name, one in signature.parameters.items():
            kind = None
            if one.annotation is not one.empty and name not in ("self", *but):
                kind = _of(one.annotation, _space(function))
            if one.default is None and kind is not None and not kind.holds(None):
                kind = _either([kind, _NONE])
            if kind is not None and one.kind is not one.VAR_KEYWORD:
                checks[name] = kind
            if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD):
                places.append((name, kind))
            elif one.kind is one.VAR_POSITIONAL:
                rest.append(kind)
        rest.append(None)

    @functools.wraps(function)
    def call(*args: _P.args, **given: _P.kwargs) -> _R:
        if not rest:
            prepare()
        for (name, kind), value in zip(places, args, strict=False):
            if kind is not None and not kind.holds(value):
                raise _refused(function, name, kind, value)
        if rest[0] is not None:
            for value in args[len(places) :]:
                if not rest[0].holds(value):
                    raise _refused(function, "each of them", rest[0], value)
        for name, value in given.items():
            kind = checks.get(name)
            if kind is not None and not kind.holds(value):
                raise _refused(function, name, kind, value)
        return function(*args, **given)

    return call


def typed_class(cls: _C) -> _C:
    """The same for the constructor and all public methods of a class, but for decorated ones."""
    for name, member in list(vars(cls).items()):
        plain = isinstance(member, types.FunctionType) and not hasattr(member, "__wrapped__")
        if plain and not name.startswith("_"):
            setattr(cls, name, typed(member))
    return typed_fields(cls)


def typed_fields(cls: _C) -> _C:
    """The same for the constructor of a class."""
    if "__init__" in vars(cls):
        cls.__init__ = typed(cls.__init__)  # type: ignore[misc]
    return cls


def check_fields(cls: type, values: Mapping[str, Any]) -> None:
    """Refuse values from a file for the fields of a dataclass, as :func:`typed_fields` does."""
    kinds = _kinds_of(cls)
    for name, value in values.items():
        kind = kinds.get(name)
        if kind is not None and not kind.holds(value):
            raise _refused(cls, name, kind, value)


@functools.cache
def _kinds_of(cls: type) -> dict[str, _Kind]:
    found = {}
    for name, one in inspect.signature(cls).parameters.items():
        kind = _of(one.annotation, _space(cls))
        if kind is not None:
            found[name] = kind
    return found


def _refused(function: Any, name: str, kind: _Kind, value: object) -> ArgError:
    where = function.__qualname__.removesuffix(".__init__")
    return ArgError(f"{where}: {name} must be {kind.one}, found {shown(value)}")


def _space(function: Any) -> dict[str, Any]:
    return vars(sys.modules[function.__module__])


def _of(annotation: Any, space: Mapping[str, Any]) -> _Kind | None:
    """What an annotation allows; None if it says nothing that can be checked."""
    if isinstance(annotation, typing.ForwardRef):
        annotation = annotation.__forward_arg__
    if isinstance(annotation, str):
        return _of_text(ast.parse(annotation, mode="eval").body, space)
    return _of_object(annotation, space)


def _of_text(node: ast.expr, space: Mapping[str, Any]) -> _Kind | None:
    match node:
        case ast.Constant(value=None):
            return _NONE
        case ast.Constant(value=str() as text):
            return _of(text, space)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _either([_of_text(left, space), _of_text(right, space)])
        case ast.Subscript(value=outer, slice=inner):
            parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
            name = _last(outer)
            if name == "Literal":
                return _one_of([ast.literal_eval(part) for part in parts])
            if name == "Annotated":
                return _of_text(parts[0], space)
            return _container(name, [_of_item(part, space) for part in parts]) or _named(
                name, space
            )
        case ast.Name() | ast.Attribute():
            return _named(_last(node), space)
    return None


def _of_item(node: ast.expr, space: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Constant) and node.value is ...:
        return ...
    return _of_text(node, space)


def _last(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _of_object(thing: Any, space: Mapping[str, Any]) -> _Kind | None:
    """The same for a type, or an alias of several."""
    origin, parts = typing.get_origin(thing), typing.get_args(thing)
    if thing is Any:
        return None
    if thing is None or thing is types.NoneType:
        return _NONE
    if origin in (typing.Union, types.UnionType):
        return _either([_of(part, space) for part in parts])
    if origin is typing.Literal:
        return _one_of(list(parts))
    if origin is typing.Annotated:
        return _of(parts[0], space)
    if isinstance(origin, type):
        inside = [... if part is ... else _of(part, space) for part in parts]
        return _container(origin.__name__, inside) or _of_class(origin)
    if isinstance(thing, type):
        return _NAMED.get(thing.__name__) or _container(thing.__name__, []) or _of_class(thing)
    return None


def _named(name: str, space: Mapping[str, Any]) -> _Kind | None:
    if name in _ANYTHING:
        return None
    found = _NAMED.get(name) or _container(name, [])
    if found is not None:
        return found
    if name in space:
        thing = space[name]
        # A deferred module has its types under its own name.
        return _of_object(thing, space) if not isinstance(thing, types.ModuleType) else None
    if not name[:1].isupper():
        return None
    # Imported for type checkers alone: the class, or an heir of it, has this name.
    return _Kind(
        lambda value: any(one.__name__ == name for one in type(value).__mro__),
        _with_article(name),
        f"{name}s",
    )


def _of_class(cls: type) -> _Kind | None:
    if getattr(cls, "_is_protocol", False):
        wanted = [name for name in dir(cls) if not name.startswith("_")]
        return _Kind(
            lambda value: all(hasattr(value, name) for name in wanted),
            f"a {cls.__name__} with {', '.join(wanted)}",
            f"{cls.__name__}s",
        )
    return _Kind(
        lambda value: isinstance(value, cls), _with_article(cls.__name__), f"{cls.__name__}s"
    )


def _either(kinds: Sequence[_Kind | None]) -> _Kind | None:
    known = [kind for kind in kinds if kind is not None]
    if len(known) < len(kinds):
        return None
    return _Kind(
        lambda value: any(kind.holds(value) for kind in known),
        _joined([kind.one for kind in known]),
        _joined([kind.many for kind in known]),
    )


def _joined(words: Sequence[str]) -> str:
    *first, last = dict.fromkeys(words)
    return f"{', '.join(first)} or {last}" if first else last


def _one_of(values: list[Any]) -> _Kind:
    """Any text or number, as functions know better what is meant by another one."""
    words = _joined([repr(value) for value in values])
    kinds = tuple({type(value) for value in values})
    return _Kind(lambda value: isinstance(value, kinds), words, f"of {words}")


def _container(name: str, parts: list[Any]) -> _Kind | None:
    """A list, a mapping, or whatever can be iterated over."""
    if name in ("Mapping", "dict", "MutableMapping"):
        values = parts[1] if len(parts) == 2 else None
        return _Kind(
            lambda value: (
                isinstance(value, Mapping)
                and (values is None or all(map(values.holds, value.values())))
            ),
            "a mapping" + (f" to {values.many}" if values else ""),
            "mappings",
        )
    if name in ("Sequence", "list", "tuple", "Collection", "Iterable", "Iterator"):
        inner = parts[0] if len(parts) == 1 or (len(parts) == 2 and parts[1] is ...) else None
        if name == "tuple" and parts and inner is None and ... not in parts:
            return _tuple(parts)
        passing = name in ("Iterable", "Iterator")
        return _Kind(
            lambda value: _is_list(value, passing) and _all(inner, value),
            "a list" + (f" of {inner.many}" if inner else ""),
            "lists",
        )
    return None


def _tuple(parts: list[Any]) -> _Kind:
    words = ", ".join(part.one if part else "a value" for part in parts)
    return _Kind(
        lambda value: (
            _is_list(value, False)
            and len(value) == len(parts)
            and all(part is None or part.holds(one) for part, one in zip(parts, value, strict=True))
        ),
        f"a tuple of {words}",
        f"tuples of {words}",
    )


def _is_list(value: Any, passing: bool) -> bool:
    """A sequence, a set or an array with a first dim; for ``passing``, anything to iterate over."""
    if isinstance(value, str | bytes | Mapping):
        return False
    if getattr(value, "ndim", None) is not None:
        return bool(value.ndim)
    return (
        hasattr(value, "__iter__")
        if passing
        else hasattr(value, "__len__") and hasattr(value, "__iter__")
    )


def _all(inner: _Kind | None, value: Any) -> bool:
    """Whether all elements are of a kind, where looking at them does not use them up."""
    if inner is None or not hasattr(value, "__len__"):
        return True
    return all(map(inner.holds, value))


def _with_article(name: str) -> str:
    return f"{'an' if name[:1] in 'AEIOU' else 'a'} {name}"


_NONE = _Kind(lambda value: value is None, "None", "None")
_ANYTHING = {"Any", "object", "Self", "Hashable"}
_NAMED: dict[str, _Kind] = {
    "int": _Kind(
        lambda value: (
            (type(value) is int and -_LARGEST < value < _LARGEST)
            or (isinstance(value, Integral) and _is_whole(value))
        ),
        "an int",
        "ints",
    ),
    "float": _Kind(
        lambda value: isinstance(value, float) or is_number(value), "a number", "numbers"
    ),
    "bool": _Kind(
        lambda value: isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"),
        "True or False",
        "bools",
    ),
    "str": _Kind(lambda value: isinstance(value, str), "a string", "strings"),
    "bytes": _Kind(lambda value: isinstance(value, bytes), "bytes", "bytes"),
    "Callable": _Kind(callable, "a function", "functions"),
    "type": _Kind(lambda value: isinstance(value, type), "a class", "classes"),
    "PathLike": _Kind(lambda value: hasattr(value, "__fspath__"), "a path", "paths"),
    "Path": _Kind(lambda value: hasattr(value, "__fspath__"), "a path", "paths"),
    "NDArray": _Kind(lambda value: getattr(value, "ndim", None) is not None, "an array", "arrays"),
}


def _is_whole(value: Any) -> bool:
    return not isinstance(value, bool) and -_LARGEST < int(value) < _LARGEST


def is_number(value: object) -> bool:
    """Whether it is an int or float, also of numpy, but not a bool or an int too large for a
    float."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    try:
        float(value)
    except OverflowError:
        return False
    return True
