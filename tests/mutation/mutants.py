"""Every small change of a module that could be a slip of the keyboard."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

__all__ = ["Mutant", "mutants"]

_COMPARISONS: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_ARITHMETIC: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult, ast.Mod: ast.Mult, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.Pow: ast.Mult,
}  # fmt: skip
_CALLS: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of a module.

    Attributes
    ----------
    line : of the module as it stands, from 1.
    change : what stood there and what stands there now.
    """

    line: int
    change: str
    tree: ast.Module
    old: ast.AST
    new: ast.AST

    def source(self) -> str:
        """The whole changed module."""
        changed = _Replace(self.old, self.new).visit(copy.deepcopy(self.tree))
        return ast.unparse(ast.fix_missing_locations(changed))


def mutants(source: str) -> Iterator[Mutant]:
    """Every change of the bodies of functions; annotations, texts and declarations stay."""
    tree = ast.parse(source)
    for function in [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]:
        for node in [n for statement in function.body for n in _own_nodes(statement)]:
            for changed in _changes(node):
                before = ast.unparse(node)
                yield Mutant(
                    node.lineno,
                    f"{_first_line(before)}  ->  {_first_line(ast.unparse(changed))}",
                    tree,
                    node,
                    changed,
                )


def _first_line(text: str) -> str:
    return text.partition("\n")[0]


def _own_nodes(node: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    """The nodes of a statement without those of functions inside it, annotations and messages."""
    if isinstance(node, ast.FunctionDef | ast.JoinedStr | ast.Raise | ast.Assert):
        if isinstance(node, ast.Raise):
            yield node
        return
    if isinstance(node, ast.expr | ast.stmt):
        yield node
    for name, value in ast.iter_fields(node):
        if name != "annotation":
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from _own_nodes(child)


def _changes(node: ast.expr | ast.stmt) -> Iterator[ast.expr | ast.stmt]:
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        yield _with(node, ops=[_COMPARISONS[type(node.ops[0])]()])
    elif isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in _ARITHMETIC:
        yield _with(node, op=_ARITHMETIC[type(node.op)]())
    elif isinstance(node, ast.BoolOp):
        yield _with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield node.operand
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int):
        yield ast.Constant(node.value + 1)
    elif isinstance(node, ast.IfExp):
        yield node.body
        yield node.orelse
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _CALLS:
        yield _with(node, func=ast.Name(_CALLS[node.func.id], ast.Load()))
    elif isinstance(node, ast.Break):
        yield ast.Continue()
    elif isinstance(node, ast.Raise) or _is_effect(node):
        yield ast.Pass()
    elif isinstance(node, ast.If):
        yield _with(node, test=ast.Constant(True))
        yield _with(node, test=ast.Constant(False))


def _is_effect(node: ast.AST) -> bool:
    """A statement that can be left out and still leaves a program that runs."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Call)
    targets = node.targets if isinstance(node, ast.Assign) else []
    return any(isinstance(target, ast.Attribute | ast.Subscript) for target in targets)


def _with(node: ast.expr | ast.stmt, **fields: object) -> ast.expr | ast.stmt:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def _place(node: ast.AST) -> tuple[object, ...]:
    corners = ("lineno", "col_offset", "end_lineno", "end_col_offset")
    return type(node), *(getattr(node, corner, 0) for corner in corners)


class _Replace(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.place, self.new = _place(old), new

    def visit(self, node: ast.AST) -> ast.AST:
        return self.new if _place(node) == self.place else self.generic_visit(node)
