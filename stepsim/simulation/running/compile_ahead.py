"""Compile all engines, or some of them, before they are needed."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Final

from stepsim.arguments import Range
from stepsim.errors import ArgError
from stepsim.kernels import ENGINES, Origin, is_jit_disabled
from stepsim.processes import pool_of

_JOBS: Final = Range(1024, "processes")


def compile_ahead(
    names: Iterable[str],
    jobs: int,
    progress: Callable[[str], None] = lambda done: None,
) -> dict[str, Origin]:
    """Compile the engines that are not on disk; where the code of each is from, by what it is for.

    Parameters
    ----------
    names : of :data:`stepsim.kernels.ENGINES`; all of them if there are none.
    jobs : processes that compile.
    progress : called with the name of an engine that has been compiled.

    Raises
    ------
    ArgError : an engine has another name, or ``jobs`` is below 1.
    UserCodeError : the kernel of a plugin cannot be compiled.
    StepSimError : a process was killed.
    """
    jobs = _JOBS.checked("compile_ahead: jobs", jobs)
    wanted = list(dict.fromkeys(names)) or list(ENGINES)
    for name in wanted:
        if name not in ENGINES:
            raise ArgError(f"no engine is named {name!r}; expected one of {', '.join(ENGINES)}")
    lacking = [
        name
        for name in wanted
        if not is_jit_disabled() and not all(entry.is_stored() for entry in ENGINES[name])
    ]
    with pool_of(max(1, min(jobs, len(lacking))), __name__) as pool, warnings.catch_warnings():
        # A compiler leaves hundreds of MB behind, so that loky replaces the process, and warns.
        warnings.filterwarnings("ignore", "A worker was restarted", UserWarning)
        compiled = dict(zip(lacking, pool.map(_ready, lacking, progress), strict=True))
    return {
        what: where
        for name in wanted
        for what, where in (compiled.get(name) or _ready(name)).items()
    }


def _ready(name: str) -> dict[str, Origin]:
    return {entry.what: entry.make_ready() for entry in ENGINES[name]}
