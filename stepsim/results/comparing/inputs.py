"""What two runs depend on, and where that differs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final


def settings_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """``hbm.channels 32 -> 16`` for each value of nested settings that differs."""
    first, second = dict(_flat("", before)), dict(_flat("", after))
    return [
        f"{name} {first.get(name, 'absent')} -> {second.get(name, 'absent')}"
        for name in dict.fromkeys([*first, *second])
        if first.get(name) != second.get(name)
    ]


_DEPENDED: Final = (
    "workload", "workload_digest", "parameters", "config", "machine", "bindings",
    "kv_lengths", "fifo_depth", "fifo_depths", "compute_bw", "par_dispatch", "place",
    "flop_weights", "counting", "plugins", "model_version",
)  # fmt: skip
"""What times and counts depend on, of the provenance of a run, except the program itself."""

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_DIGITS: Final = 12
"""Of a digest: enough to distinguish two."""


def provenance_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """``machine.hbm.channels 32 -> 16`` for all that a run depends on and that differs."""
    first, second = (
        {name: one[name] for name in _DEPENDED if one.get(name) is not None}
        for one in (before, after)
    )
    for one in (first, second):
        machine = one.get("machine", {})
        one["machine"] = {k: v for k, v in machine.items() if k != "description"}
    return [_DIGEST.sub(_shortened, text) for text in settings_changes(first, second)]


def _shortened(digest: re.Match[str]) -> str:
    return digest[0][:_DIGITS]


def _flat(prefix: str, value: Any) -> Iterable[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _flat(f"{prefix}.{name}" if prefix else name, inner)
    else:
        yield prefix, value
