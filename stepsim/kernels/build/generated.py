"""Kernels written by the program itself: readers of fields and chains of comparisons.

A chain of comparisons with constants becomes a jump table in the compiler. The sources can be read
in a debugger and appear in tracebacks. They are written when a kernel is first compiled or run, for
a process that loads the compiled engine needs none of them.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from stepsim.kernels.build.jit import spliced_later


def written(title: str, write: Callable[[], tuple[str, Mapping[str, Any]]]) -> Any:
    """A kernel of generated source, part of its caller before that is compiled.

    ``write`` returns the source, which defines one function, and the names that it knows.
    """

    def function() -> Callable[..., Any]:
        source, names = write()
        file = f"<stepsim: {title}>"
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        space: dict[str, Any] = {}
        exec(compile(source, file, "exec"), dict(names), space)
        (made,) = space.values()
        return cast("Callable[..., Any]", made)

    return spliced_later(title, function)


def dispatcher(
    title: str, arguments: str, selector: str, cases: Sequence[tuple[int, str, str, Any]],
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

    def write() -> tuple[str, dict[str, Any]]:
        known = dict(names or {})
        lines = [f"def choose({arguments}):", f"    code = {selector}"]
        for code, name, expression, function in cases:
            known[f"chosen_{code}"] = function
            lines.append(f"    if code == {code}:  # {name}")
            lines.append(f"        return {expression.replace('chosen', f'chosen_{code}')}")
        lines.append(f"    return {otherwise}")
        return "\n".join(lines), known

    return written(title, write)
