"""Sources of requests by name: ours, and those of plugins.

A plugin offers a class under the entry point group ``stepsim.request_sources``. Its arguments are
settings, and an instance has a method ``requests`` without arguments that returns `Requests`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from stepsim import plugins
from stepsim.errors import ArgError, did_you_mean
from stepsim.serving.requests.lengths import (
    FixedLengths,
    LognormalLengths,
    RandomLengths,
    ResampledLengths,
)
from stepsim.serving.requests.requests import Requests
from stepsim.serving.requests.sessions import SessionFile
from stepsim.serving.requests.token_files import TokenFile
from stepsim.serving.requests.traces import TraceRequests
from stepsim.typed import typed

GROUP: Final = "stepsim.request_sources"
"""Entry points of this group are sources of other packages."""


class RequestSource(Protocol):
    """Where requests come from."""

    def requests(self) -> Requests:
        """The requests, always the same."""
        ...


_OWN: Final[Mapping[str, Callable[..., RequestSource]]] = {
    "trace": TraceRequests,
    "tokens": TokenFile,
    "sessions": SessionFile,
    "random": RandomLengths,
    "fixed": FixedLengths,
    "lognormal": LognormalLengths,
    "resampled": ResampledLengths,
}


@typed
def request_sources() -> Mapping[str, Callable[..., RequestSource]]:
    """The classes of all sources by name; those of plugins come last."""
    found = dict(_OWN)
    for plugin in plugins.found(GROUP):
        if _problem(plugin) is None:
            found[plugin.name] = plugin.loaded
    return found


@typed
def request_source(name: str) -> Callable[..., RequestSource]:
    """The class of a source.

    Raises
    ------
    ArgError : there is no source of that name; plugins that cannot be used are named with it.
    """
    found = request_sources()
    if name not in found:
        wrong = "".join(
            f" The plugin '{plugin.name}' of package {plugin.package} cannot be used: {problem}."
            for plugin in plugins.found(GROUP)
            if (problem := _problem(plugin)) is not None
        )
        raise ArgError(
            f"requests: there is no source '{name}', expected one of {', '.join(found)}"
            f"{did_you_mean(name, found)}{wrong}"
        )
    return found[name]


def _problem(plugin: plugins.Plugin) -> str | None:
    """Why a plugin cannot be used as a source; None if it can."""
    if plugin.error is not None:
        return plugin.error
    if not inspect.isclass(plugin.loaded) or not callable(getattr(plugin.loaded, "requests", None)):
        return f"{plugin.value} is not a class with a method `requests`"
    if plugin.name in _OWN:
        return f"the name '{plugin.name}' is that of a source of stepsim"
    return None
