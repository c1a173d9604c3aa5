"""Sliding windows: the layers of a model that attend to the latest tokens alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stepsim.arguments import Range, shown
from stepsim.errors import ArgError

if TYPE_CHECKING:
    from stepsim.workloads.models.families import Family
    from stepsim.workloads.models.keys import Keys

_MOST_TOKENS = 1 << 31
_TOKENS = Range(_MOST_TOKENS, "cached tokens", low=1)
_LAYER = Range(1 << 20, "a layer of a model", low=0)
_FULL = ("full_attention", "attention")
_SLIDING = "sliding_attention"
_PATTERN = ("sliding_window_pattern", "_sliding_window_pattern")


@dataclass(frozen=True, slots=True)
class Windows:
    """The sliding windows of a model.

    Attributes
    ----------
    tokens : that a request attends to at most in the layers that have a window, the new one among
        them.
    layers : these layers, in ascending order from 0; None if all have one.
    """

    tokens: int
    layers: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "tokens", _TOKENS.checked("windows: tokens", self.tokens))
        if self.layers is None:
            return
        if not isinstance(self.layers, tuple | list) or not self.layers:
            raise ArgError(
                f"windows: layers must be numbers of layers or None, found {shown(self.layers)}"
            )
        found = [_LAYER.checked("windows: layers", one) for one in self.layers]
        if found != sorted(set(found)):
            raise ArgError(f"windows: layers must ascend, found {shown(self.layers)}")
        put(self, "layers", tuple(found))

    def of(self, layer: int | None) -> int | None:
        """The window of a layer, None if it attends to all tokens.

        Without a layer it is one that attends to all tokens, if the model has any.
        """
        if self.layers is None:
            return self.tokens
        return self.tokens if layer in self.layers else None

    @property
    def first_full(self) -> int:
        """The first layer that attends to all tokens, which must exist."""
        windowed = self.layers or ()
        return next(i for i in range(len(windowed) + 1) if i not in windowed)


def windows_of(
    keys: Keys, raw: Mapping[str, Any], family: Family, layers: int | None
) -> Windows | None:
    """The windows that a config.json states; None if all layers attend to all tokens.

    ``raw`` also has the keys that are null, which mean that there is no window, whatever is usual
    in the family.
    """
    types = keys.values.get("layer_types")
    used = keys.flag("use_sliding_window", default=not family.window_off)
    stated = "sliding_window" in raw or types is not None
    if not stated and layers is None:  # the default of the family, of layers nobody knows
        return None
    usual = None if "sliding_window" in raw else family.window
    tokens = keys.number("", "sliding_window", default=usual or 0, most=_MOST_TOKENS) or None
    windowed = _listed(keys, types, layers) if types is not None else None
    if not used:
        return None
    if tokens is None:
        if windowed:
            keys.problem(
                f"the window is missing: expected the key '{keys.path}sliding_window', since "
                f"{keys.path}layer_types has {_SLIDING}"
            )
        return None
    if windowed is None:
        windowed = _regular(keys, family, layers)
    if windowed is None or len(windowed) == layers:
        return Windows(tokens)
    return Windows(tokens, tuple(windowed)) if windowed else None


def _listed(keys: Keys, types: Any, layers: int | None) -> list[int] | None:
    """The layers that ``layer_types`` says to have a window."""
    where = f"{keys.path}layer_types"
    if not isinstance(types, list) or not all(isinstance(one, str) for one in types):
        keys.problem(f"{where}: expected a word for each layer, found {shown(types)}")
        return None
    if layers is not None and len(types) != layers:
        keys.problem(f"{where}: expected a word for each of {layers} layers, found {len(types)}")
        return None
    return [i for i, one in enumerate(types) if one == _SLIDING]


def _regular(keys: Keys, family: Family, layers: int | None) -> list[int] | None:
    """The layers of a regular pattern; None if all have a window."""
    period = keys.number("", *_PATTERN, default=family.window_period or 0)
    first = None
    if keys.has("max_window_layers") or family.window_off:
        first = keys.number("", "max_window_layers", default=28, least=0)
    if not period and first is None:
        return None
    if layers is None:
        keys.problem(
            f"the number of layers is missing: expected the key '{keys.path}num_hidden_layers', "
            "since only some of them have a sliding window"
        )
        return None
    if period:
        return [i for i in range(layers) if (i + 1) % period]
    return list(range(first or 0, layers))


def other_layers(types: Any) -> dict[str, int]:
    """Kinds of layers in ``layer_types`` that are neither full nor sliding attention, counted."""
    found: dict[str, int] = {}
    for one in types if isinstance(types, list) else ():
        if isinstance(one, str) and one not in (*_FULL, _SLIDING):
            found[one] = found.get(one, 0) + 1
    return found
