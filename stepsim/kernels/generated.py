"""Kernels written by the program itself: readers of fields and chains of comparisons.

A chain of comparisons with constants becomes a jump table in the compiler. The sources can be read
in a debugger and appear in tracebacks.
"""

from __future__ import annotations

import linecache
from collections.abc import Iterable, Mapping
from typing import Any

from stepsim.kernels.jit import spliced

__all__ = ["compile_source", "dispatcher"]


def compile_source(title: str, source: str, names: Mapping[str, Any]) -> dict[str, Any]:
    """Run generated source, in which ``names`` are known; the names that it defines."""
    file = f"<stepsim: {title}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    space = dict(names)
    exec(compile(source, file, "exec"), space)
    return space


def dispatcher(
    title: str, arguments: str, selector: str, cases: Iterable[tuple[int, str, str, Any]],
    otherwise: str = "-1", names: Mapping[str, Any] | None = None,
) -> Any:  # fmt: skip
    """A kernel that chooses among kernels by a number.

    Parameters
    ----------
    arguments : of the kernel, as in a function's head.
    selector : expression for the number.
    cases : number, name for a reader of the source, expression in which ``chosen`` is the kernel
        to call, and that kernel.
    otherwise : what is returned for any other number.
    names : what else the expressions refer to.
    """
    known = dict(names or {})
    lines = [f"def choose({arguments}):", f"    code = {selector}"]
    for code, name, expression, function in cases:
        known[f"chosen_{code}"] = function
        lines.append(f"    if code == {code}:  # {name}")
        lines.append(f"        return {expression.replace('chosen', f'chosen_{code}')}")
    lines.append(f"    return {otherwise}")
    return spliced(compile_source(title, "\n".join(lines), known)["choose"])
