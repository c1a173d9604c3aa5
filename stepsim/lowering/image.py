"""The Image: everything the engine needs, as flat arrays that can be run again and again."""

from __future__ import annotations

from dataclasses import field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepsim.digests import sha256
from stepsim.frozen import frozen
from stepsim.kernels import BOUNDED, Carries, PortAccess
from stepsim.lowering.network import UnitOrigin


@frozen(slots=False)
class Image:
    """A network laid out for the engine. Runs never write to its arrays: they copy those they
    change.

    Attributes
    ----------
    units, channels, ports : records of :mod:`stepsim.kernels.layout` in their initial state.
    slots : the fixed part of the slot arena (forms and buffers of source tokens, private token
        storage, first rings).
    tokens : values and forms of the tokens of sources, which all runs of the image share.
    params : all integer parameters, input and output lists, and the selector table.
    scratch_words : private int64 scratch space of all units together.
    memory_table : initial words of the memory model, without the cache after them.
    globals : the one record of scalars.
    memory_model : name of the memory model; its code in ``globals`` depends on what is installed.
    unit_names, unit_ops, channel_names, unit_origins : for results and reports.
    """

    units: NDArray[np.void]
    channels: NDArray[np.void]
    slots: NDArray[np.void]
    tokens: NDArray[np.void]
    params: NDArray[np.int64]
    scratch_words: int
    ports: NDArray[np.void]
    memory_table: NDArray[np.int64]
    globals: NDArray[np.void]
    memory_model: str
    unit_names: tuple[str, ...]
    unit_ops: tuple[str, ...]
    channel_names: tuple[str, ...]
    unit_origins: tuple[UnitOrigin, ...]
    selector_widths: tuple[int, ...]
    """Number of flags of every selector; the set flags come after all other parameters."""
    growing_words: int = 0
    """Scratch space behind that of all units, for a network on chip; a run may ask for more."""
    accesses: tuple[PortAccess, ...] = ()
    """The accesses of every port, for a memory model with addresses."""
    ports_of_chips: tuple[int, ...] = ()
    """Number of memory ports of every chip, where units are on several; those of chip 0 come
    first."""
    unit_chips: tuple[int, ...] = ()
    """Chip of every unit, where they are on several."""
    beginning: Any = field(default=None, init=False, repr=False, compare=False)
    """SHA-256 of everything before the selectors, shared by images that agree in it."""

    def __getstate__(self) -> dict[str, Any]:
        # A hash object that can be continued cannot be pickled; it is computed again when missing.
        return {**self.__dict__, "beginning": None}

    @property
    def chips(self) -> int:
        """Number of chips that the units are on; 0 where they are not on several."""
        return len(self.ports_of_chips)

    @property
    def carries(self) -> Carries:
        """The network that carries tokens, if there is one."""
        if self.chips:
            return "chips"
        return "network" if self.growing_words else ""

    @property
    def selectors_at(self) -> int:
        """Place of the table of selectors, which comes last among the parameters."""
        return int(self.globals["selectors"][0])

    @cached_property
    def selectors(self) -> tuple[tuple[int, tuple[int, ...]], ...]:
        """(width, selected indices) of every selector id."""
        found = []
        for number, width in enumerate(self.selector_widths):
            entry = int(self.params[self.selectors_at + number])
            chosen = self.params[entry + 1 : entry + 1 + self.params[entry]]
            found.append((width, tuple(chosen.tolist())))
        return tuple(found)

    def digest(self) -> str:
        """SHA-256 of all arrays: equal images give equal runs."""
        return self._digest

    @cached_property
    def _digest(self) -> str:
        digest = (self.beginning or self.begin_digest()).copy()
        digest.update(self.params[self.selectors_at :].tobytes())
        return str(digest.hexdigest())

    def begin_digest(self) -> Any:
        """SHA-256 of all but the selectors.

        A memory model is hashed by name. Its code also depends on the plugins that are installed,
        whether the run uses them or not.
        """
        # Including the padding between fields, which numpy need not copy.
        shared = np.frombuffer(bytearray(self.globals.tobytes()), self.globals.dtype)
        shared["memory_model"] = 0
        slots = self.slots
        if self.carries == "network" and len(self.channels):
            # Rings are empty, and described by the FIFOs; a placed program has thousands.
            slots = slots[: int(self.channels["start"][0])]
        parts = (self.units, self.channels, slots, self.tokens, self.ports, shared)
        digest = sha256(self.memory_model.encode(), sum(array.nbytes for array in parts))
        for array in (*parts, self.params[: self.selectors_at]):
            digest.update(array.tobytes())
        if self.accesses or self.memory_model == BOUNDED.name or self.chips:
            # The contents of the table of such a model do not follow from the rest.
            digest.update(self.memory_table.tobytes())
        return digest
