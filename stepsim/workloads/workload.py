"""Workload: the parameters of a program and how it is built, declared once.

A field of a workload is at once a Python argument, an option of the command line, a key of a sweep
specification, an axis of a sweep, and a column of the results::

    @dataclass(frozen=True, kw_only=True)
    class Gemm(Workload):
        '''Tiled matrix product.'''

        m: Annotated[int, Param("rows of the product", unit="rows")] = 1024
        tile: Annotated[int | Literal["dynamic"], Param("rows per tile", unit="rows")]

        def build(self, data: Data) -> Built: ...
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import stepsim.machine
from stepsim.deferred import deferred
from stepsim.errors import ArgError, WorkloadError
from stepsim.workloads.built import Built
from stepsim.workloads.inputs import KV_LENGTHS, ROUTING, Data, Input
from stepsim.workloads.parameters import ParameterError, check_fields, fields_of
from stepsim.workloads.resolving import resolve

if TYPE_CHECKING:
    import numpy as np

    from stepsim.machine import Machine
else:
    np = deferred("numpy")


class Workload:
    """Base of workloads: frozen dataclasses whose fields are the parameters.

    Attributes
    ----------
    name : its name on the command line and in sweeps.
    inputs : traces that it needs, apart from `unneeded` ones.
    published_machine : machine of the published experiments; None for the default machine.
    own_machine : the `Machine` that it is made for, or its name; it is used unless another is
        given. None if it is not made for a specific machine.
    """

    name: ClassVar[str] = ""
    inputs: ClassVar[tuple[Input, ...]] = ()
    published_machine: ClassVar[str | None] = None
    own_machine: ClassVar[Any] = None

    @classmethod
    def routing_shape(cls, given: Mapping[str, Any]) -> tuple[int, int] | None:
        """Experts, and experts per token, of the routing that the parameters need, if known."""
        return None

    @classmethod
    def unneeded(cls, given: Mapping[str, Any]) -> Mapping[Input, str]:
        """Inputs that have no effect with the given parameters, each with why, and what to do."""
        return {}

    @classmethod
    def needed(cls, given: Mapping[str, Any]) -> tuple[Input, ...]:
        """Inputs that the program of the given parameters is built for or run on."""
        unneeded = cls.unneeded(given) if cls.inputs else {}
        return tuple(one for one in cls.inputs if one not in unneeded)

    @classmethod
    def implied(cls, given: Mapping[str, Any], data: Data) -> Data:
        """The data, with a routing added if none is given and requests have no choice.

        Every request visits the only expert, if `routing_shape` of the parameters is (1, 1).
        """
        needed = cls.needed(given)
        counted = data.kv_lengths is not None or KV_LENGTHS in cls.unneeded(given)
        alone = ROUTING in needed and data.routing is None and counted
        if not alone or cls.routing_shape(given) != (1, 1):
            return data
        return replace(data, routing=np.zeros((data.tokens, 1), dtype=np.int64))

    @classmethod
    def presets(cls, given: Mapping[str, Any], data: Data, config: str | None) -> Mapping[str, Any]:
        """Values that published experiments set when they are not given.

        Raises
        ------
        ParameterError : ``config`` asks for an experiment that was not published.
        """
        if config == "published":
            raise ParameterError(
                [("config", f"there is no published experiment of {cls.name}; leave it out")]
            )
        return {}

    def check(self, data: Data) -> Iterable[tuple[str, str]]:
        """Conflicts between parameters and data, as pairs of a parameter's name and a text."""
        return ()

    def program_key(self, data: Data) -> Hashable:
        """A key that is equal for data that can share a program: the part that decides the
        program."""
        arrays = [getattr(data, one.name) for one in self.deciding()]
        return data.rows, *(None if array is None else array.tobytes() for array in arrays)

    @classmethod
    def shaping(cls) -> tuple[Input, ...]:
        """The inputs whose content decides the program; their number of rows always does.

        The others are bound to it for every run, which is faster. By default the program may depend
        on all of them.
        """
        return cls.inputs

    @classmethod
    def shaping_of(cls, given: Mapping[str, Any]) -> tuple[Input, ...]:
        """The same with the given parameters, where it depends on them."""
        return cls.shaping()

    def deciding(self) -> list[Input]:
        """Those of `shaping_of` that have an effect with its parameters."""
        values = self.values()
        needed = self.needed(values)
        return [one for one in self.shaping_of(values) if one in needed]

    def build(self, data: Data) -> Built:
        """The program.

        Raises
        ------
        ParameterError : see `check`.
        """
        raise NotImplementedError

    @classmethod
    def of(
        cls,
        *,
        data: Data | None = None,
        machine: Any = None,
        config: str | None = None,
        **given: Any,
    ) -> Self:
        """The workload for given parameters; see `stepsim.workloads.resolve`.

        ``machine`` is a machine, its name or its file.

        Raises
        ------
        ArgError : ``data`` is not Data.
        MachineError : the machine is unknown or invalid.
        ParameterError : a parameter is unknown, missing, mistyped, out of range or without effect.
        """
        batches = () if data is None else (data_of(data),)
        target = None if machine is None else machine_of(machine)
        return resolve(cls, given, machine=target, config=config, data=batches).workload

    def __post_init__(self) -> None:
        check_fields(self)
        values, problems = self.values(), []
        for name, field in fields_of(type(self)).items():
            if why := field.unused(values):
                # A value equal to the default cannot be distinguished from one that is not given.
                problems += [(name, why)] * (values[name] != field.default)
            elif field.lacks(values[name]):
                problems.append((name, field.missing))
            elif field.param.like is not None and values[name] is None:
                object.__setattr__(self, name, getattr(self, field.param.like))
        if problems:
            raise ParameterError(problems)

    def checked(self, data: Data) -> None:
        """Refuse conflicting parameters and data.

        Raises
        ------
        ParameterError : with all problems.
        WorkloadError : `check` yields anything but pairs of texts.
        ArgError : ``data`` is not Data, or it has no tokens or requests although the workload needs
            some.
        """
        data_of(data)
        if self.inputs and data.rows < 1:
            raise ArgError(
                f"{type(self).name}: rows: expected at least 1 token or request, found "
                f"{data.rows}; make data with Data.of"
            )
        found: Any = self.check(data)
        problems = list(found) if isinstance(found, Iterable) else [found]
        for one in problems:
            pair = isinstance(one, tuple) and len(one) == 2
            if not pair or not all(isinstance(part, str) for part in one):
                raise WorkloadError(
                    f"{type(self).name}: check: expected pairs of a parameter and a text, found "
                    f'{one!r}; yield them, as in yield "tile", "expected a divisor of m"'
                )
        if problems:
            raise ParameterError(problems)

    def build_for(self, data: Data, machine: Machine) -> Built:
        """The program for a machine; by default that of `build`, which does not depend on it.

        Raises
        ------
        ParameterError : see `check`.
        """
        return self.build(data)

    def values(self) -> dict[str, Any]:
        """Every parameter by name."""
        return {name: getattr(self, name) for name in fields_of(type(self))}

    def columns(self) -> dict[str, Any]:
        """Every parameter as stored in the results; None for those without effect."""
        known, values = fields_of(type(self)), self.values()
        return {
            name: None if field.unused(values) else field.column_value(values[name])
            for name, field in known.items()
        }


def data_of(value: Any) -> Data:
    """``value``; ArgError unless it is Data."""
    if not isinstance(value, Data):
        raise ArgError(f"data: expected Data, found {type(value).__name__}; see Data.of")
    return value


def machine_of(value: Any) -> stepsim.machine.Machine:
    """A machine, also by its name or file.

    Raises
    ------
    MachineError : it is unknown, invalid or not a machine.
    """
    return (
        value if isinstance(value, stepsim.machine.Machine) else stepsim.machine.load_machine(value)
    )
