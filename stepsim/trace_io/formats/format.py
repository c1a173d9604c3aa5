"""What a trace format declares, and the view of a file by which it recognizes itself."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from stepsim.arrow import pa
from stepsim.errors import ArgError, TraceError
from stepsim.trace_io.files import choose_array, detect_format
from stepsim.trace_io.formats.job import ImportJob
from stepsim.trace_io.requests.trace import RequestTrace
from stepsim.trace_io.routing.table import RoutingTable
from stepsim.trace_io.sources.arrow import ARROW_KINDS, read_schema
from stepsim.trace_io.sources.json_lines import first_records
from stepsim.trace_io.sources.numpy import archive_names, open_array
from stepsim.trace_io.sources.text import first_fields
from stepsim.typed import typed_fields

IMPORT_OPTIONS = ("column", "layers", "drop_missing", "ranks")
"""Fields of `ImportJob` that a format uses only if it declares them."""

_ROUTING_OPTIONS = ("model", "experts", "k", "layer", "step")
"""Options that apply to routing of every format."""

_RECORDS = 16


@typed_fields
@dataclass(frozen=True)
class Format:
    """A trace format.

    Attributes:
        name: what ``--format`` calls it.
        holds: routing of tokens, or requests.
        read: yields the trace piece by piece, in bounded memory: checked tables of consecutive
            tokens of one layer and step, or requests in the order of arrival. It raises a
            `TraceError` for what it cannot read.
        recognizes: whether a file is in this format; it may raise a `TraceError` that says why
            the file is in no format.
        options: the `IMPORT_OPTIONS` that ``read`` uses; any other option is refused when given.
            What is known about a model (``experts``, ``k``, ``model``) applies to all routing.
        last: the format is tried after all others, because few features identify it.
        package: the package of a plugin; filled in when the plugin is found.

    Raises:
        ArgError: an option does not exist.
    """

    name: str
    holds: Literal["routing", "requests"]
    read: Callable[[ImportJob], Iterator[RoutingTable | RequestTrace]]
    recognizes: Callable[[Content], bool]
    options: Collection[str] = ()
    last: bool = False
    package: str | None = None

    def __post_init__(self) -> None:
        for option in self.options:
            if option not in IMPORT_OPTIONS:
                raise ArgError(
                    f"format {self.name}: options has {option!r}, expected names among "
                    f"{', '.join(IMPORT_OPTIONS)}; correct or drop it"
                )

    @property
    def all_options(self) -> tuple[str, ...]:
        """All options that apply to a trace of this format, in a fixed order."""
        own = tuple(option for option in IMPORT_OPTIONS if option in self.options)
        return (_ROUTING_OPTIONS if self.holds == "routing" else ()) + own

    def failed(self, path: Path, error: Exception) -> TraceError:
        """The error for a plugin that raised anything but our errors."""
        return TraceError(
            f"{path}: the plugin format `{self.name}` of package {self.package} failed "
            f"({type(error).__name__}: {error}); report this to its authors, or choose another "
            "--format"
        )


class Content:
    """The beginning of a file or a folder, read on demand.

    Attributes:
        path: the file or folder.

    All properties raise a `TraceError` if the file is unreadable.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def kind(self) -> str | None:
        """``npy``, ``npz``, ``parquet``, ``ipc file`` or ``ipc stream``; None for anything else."""
        return None if self.path.is_dir() else detect_format(self.path)

    @cached_property
    def array_names(self) -> list[str]:
        """The names of the arrays in a .npz file."""
        return archive_names(self.path) if self.kind == "npz" else []

    @cached_property
    def dims(self) -> int | None:
        """How many dims the array of a .npy file has, or the main one of a .npz file."""
        if self.kind not in ("npy", "npz"):
            return None
        name = None
        if self.kind == "npz":
            names = ("experts", "lengths", "data")
            name = choose_array(self.path, self.array_names, names, ("weights",))
        dims = len(open_array(self.path, self.kind, name).shape)
        if dims not in (1, 2, 3):
            raise TraceError(
                f"{self.path}: the array has {dims} dims, expected 1 (lengths), 2 [tokens, k] or 3 "
                "[tokens, layers, k]; reshape it"
            )
        return dims

    @cached_property
    def schema(self) -> pa.Schema | None:
        """The schema of a Parquet or Arrow IPC file."""
        return read_schema(self.path, self.kind) if self.kind in ARROW_KINDS else None

    @cached_property
    def fields(self) -> list[str]:
        """The comma-separated fields of the first line of a text that is not JSON."""
        if self.kind is not None or self.path.is_dir():
            return []
        found = first_fields(self.path)
        return [] if found[0][:1] in ("{", "[") else found

    @cached_property
    def records(self) -> list[dict[str, Any]]:
        """The first JSON records; several, since the first responses may lack the typical
        fields."""
        if self.kind is not None or self.path.is_dir() or self.fields:
            return []
        return first_records(self.path, _RECORDS)
