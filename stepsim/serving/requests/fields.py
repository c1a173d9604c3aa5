"""Files with a record for each request, and the fields of records, checked."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stepsim.arguments import is_number, is_whole
from stepsim.data import locate
from stepsim.errors import TraceError, did_you_mean
from stepsim.serving.requests.requests import MOST_TOKENS, Requests
from stepsim.shown import shown
from stepsim.typed import typed_fields


@typed_fields
@dataclass(frozen=True, slots=True)
class RequestFile(ABC):
    """The requests of a file.

    Attributes
    ----------
    path : the file.
    """

    path: str

    def requests(self) -> Requests:
        """The requests.

        Raises
        ------
        TraceError : the file is unreadable or holds no requests, a field is wrong or missing, or
            some requests have an arrival and others do not.
        ArgError : times go back.
        """
        return self._read(locate(self.path))

    @abstractmethod
    def _read(self, path: Path) -> Requests: ...


class Fields:
    """A record of a file.

    Every method raises a `TraceError` with the place when a field is missing or out of range.
    """

    def __init__(self, place: str, record: dict[str, Any], known: Collection[str]) -> None:
        self.place = place
        self._record = record
        for name in record:
            if name not in known:
                raise TraceError(
                    f"{place}: has a field `{shown(name, str)}`, expected only "
                    f"{', '.join(f'`{one}`' for one in known)}{did_you_mean(name, known)}"
                )

    def __contains__(self, name: str) -> bool:
        return name in self._record

    def tokens(self, name: str) -> int:
        """A number of tokens, from 1 on."""
        value = self.value(name)
        if not is_whole(value) or not 1 <= value <= MOST_TOKENS:
            raise self.wrong(name, f"a whole number of tokens from 1 to {MOST_TOKENS}")
        return int(value)

    def whole(self, name: str) -> int:
        """A whole number from 0 on."""
        value = self.value(name)
        if not is_whole(value) or not 0 <= value < 1 << 63:
            raise self.wrong(name, "a whole number from 0 on")
        return int(value)

    def seconds(self, name: str) -> float:
        """A finite number of seconds from 0 on."""
        value = self.value(name)
        if not is_number(value) or not (math.isfinite(value) and 0 <= value < 1 << 32):
            raise self.wrong(name, "seconds from 0 on")
        return float(value)

    def ids(self, name: str) -> list[int]:
        """A list of token ids, which are whole numbers from 0 on."""
        value = self.value(name)
        if not isinstance(value, list) or not all(is_whole(v) and 0 <= v < 1 << 63 for v in value):
            raise self.wrong(name, "a list of token ids from 0 on")
        return value

    def value(self, name: str) -> Any:
        """Whatever the field holds."""
        if name not in self._record:
            raise TraceError(f"{self.place}: has no field `{name}`; add it, or drop the record")
        return self._record[name]

    def wrong(self, name: str, expected: str) -> TraceError:
        """The error about a field that holds something else than ``expected``."""
        found = shown(self._record[name])
        return TraceError(
            f"{self.place}: `{name}` is {found}, expected {expected}; correct or drop the record"
        )
