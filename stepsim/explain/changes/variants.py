"""Changes given by the user, and combinations of changes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

from stepsim.explain.changes.candidates import Change, deepen_text, option_text, short_list
from stepsim.machine import Machine
from stepsim.simulation import Variant

_TEXTS: Final = ("name", "description")
"""Values of a machine that do not affect runs."""


def combined(base: Machine, first: Change, *others: Change) -> Change:
    """Several changes at once; if two of them change the same value, the last one wins.

    Parameters
    ----------
    base : machine of the program.

    Raises
    ------
    MachineError
        No machine can have all their values.
    """
    every = (first, *others)
    overrides = _joined(one.overrides for one in every)
    whole = [one for one in every if one.machine is not None]
    depths = [one.fifo_depth for one in every if one.fifo_depth is not None]
    places = [one.place for one in every if one.place is not None]
    return Change(
        name=" and ".join(one.name for one in every),
        kind="combined",
        target=" and ".join(dict.fromkeys(one.target for one in every if one.target)),
        targets=tuple(dict.fromkeys(name for one in every for name in one.targets)),
        apply=" and ".join(one.apply for one in every if one.apply),
        overrides=overrides,
        machine=_overridden(whole[-1].machine, base, overrides) if whole else None,
        fifo_depth=depths[-1] if depths else None,
        fifo_depths=_joined(one.fifo_depths for one in every),
        compute=_joined(one.compute for one in every),
        par_dispatch=_joined(one.par_dispatch for one in every),
        bindings=_joined(one.bindings or {} for one in every) or None,
        parts=tuple(one.name for one in every),
        buildable=all(one.buildable for one in every),
        place=places[-1] if places else None,
    )


def of_variant(variant: Variant, machine: Machine) -> Change:
    """The change that a user's variant makes to a program on a machine."""
    overrides, how = {}, ""
    own = variant.machine if isinstance(variant.machine, Machine) else None
    if own is not None:
        overrides = _differences(machine, own)
        how = option_text(overrides)
        if own.name != machine.name or None in overrides.values():
            how = f"the machine {own.name}"
    targets = (*variant.fifo_depths, *variant.compute, *variant.par_dispatch)
    steps = [
        how,
        "" if variant.fifo_depth is None else f"--set fifo.depth={variant.fifo_depth}",
        *(deepen_text(name, depth) for name, depth in variant.fifo_depths.items()),
        *(f"{factor:g} x compute_bw of {name}" for name, factor in variant.compute.items()),
        *(f"par_dispatch={width} of {name}" for name, width in variant.par_dispatch.items()),
        "other bindings" if variant.bindings is not None else "",
        "other places" if variant.place is not None else "",
    ]
    return Change(
        name=variant.name,
        kind="custom",
        target=short_list(targets) if targets else "",
        targets=targets,
        apply=" and ".join(filter(None, steps)) or "nothing is changed",
        overrides=overrides,
        machine=own,
        fifo_depth=variant.fifo_depth,
        fifo_depths=variant.fifo_depths,
        compute=variant.compute,
        par_dispatch=variant.par_dispatch,
        bindings=variant.bindings,
        place=variant.place,
        buildable=math.inf not in variant.compute.values()
        and None not in variant.fifo_depths.values(),
    )


def _joined(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for part in parts:
        found.update(part)
    return found


def _differences(machine: Machine, other: Machine) -> dict[str, Any]:
    """Values of a machine that differ from another one, by dotted key; None for missing sections.

    Names of machines are ignored.
    """
    before, after = (_flat(one.to_dict()) for one in (machine, other))
    found = {key: value for key, value in after.items() if before.get(key, ...) != value}
    lacking = {key.partition(".")[0] for key in before} - {key.partition(".")[0] for key in after}
    found.update(dict.fromkeys(sorted(lacking)))
    return {key: value for key, value in found.items() if key not in _TEXTS}


def _overridden(machine: Machine | None, base: Machine, overrides: Mapping[str, Any]) -> Machine:
    """The base machine with the overridden values, under the name of ``machine`` if given."""
    values = base.to_dict()
    if machine is not None:
        values.update({key: getattr(machine, key) for key in _TEXTS})
    for key, value in overrides.items():
        section, _, leaf = key.rpartition(".")
        if section:
            values[section] = {**(values.get(section) or {}), leaf: value}
        else:
            values[key] = value
    return Machine(**{key: value for key, value in values.items() if value is not None})


def _flat(values: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            found.update({f"{key}.{name}": inner for name, inner in value.items()})
        else:
            found[key] = value
    return found
