"""Selectors and integers that a graph reads: from files next to it, or given by the user."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from stepsim.arguments import shown
from stepsim.errors import ArgError, GraphFileError, LoweringError
from stepsim.frozen import keyword_record
from stepsim.graph.operator import Bindings, Operator
from stepsim.graph.types import TensorSpec

_MOST_BYTES = 2**30


@keyword_record
class Missing(Operator):
    """A source without its array: the program can be measured but not run."""

    path: str
    node: str

    def unit_params(self, bindings: Bindings) -> dict[str, Any]:
        raise LoweringError(self.complaint())

    def complaint(self) -> str:
        """Which arrays the program lacks, and where to put them."""
        missing = [op for op in self.program.operators if isinstance(op, Missing)]
        names = ", ".join(f"{op.node} ({op.path})" for op in missing)
        return (
            f"program '{self.program.name}': no arrays for {names}. Put the files next to the "
            "graph or pass arrays={name: array} or routing= to load_graph, --arrays or --indices "
            "to the command line"
        )


@keyword_record
class MissingSelectors(Missing):
    """Selectors of which only shape and width are known."""

    name: ClassVar[str] = "selector"
    unit_kind: ClassVar[str] = "SelectGen"


@keyword_record
class MissingValues(Missing):
    """Integers of which only the shape is known."""

    name: ClassVar[str] = "metadata"
    unit_kind: ClassVar[str] = "MetadataGen"


class SideArrays:
    """Arrays by path, file name, stem, name of an operator or its id.

    Attributes
    ----------
    folders : folders to which paths of the graph are relative.
    given : entries given by the user by name: arrays, or specs if only shapes are known.
    used : keys of ``given`` that an operator reads.

    Raises
    ------
    GraphFileError : ``arrays`` is neither a mapping nor a folder or ``.npz`` file.
    """

    def __init__(self, folder: Path | None, arrays: Any) -> None:
        self.folders = [] if folder is None else [folder]
        self.given: Mapping[Any, Any] = {}
        self.used: set[Any] = set()
        self._all_needed = isinstance(arrays, Mapping)
        if isinstance(arrays, Mapping):
            self.given = arrays
        elif isinstance(arrays, str | Path):
            self._add_place(Path(arrays))
        elif arrays is not None:
            raise GraphFileError(
                "load_graph: arrays: expected a mapping of names to arrays, a folder or a .npz "
                f"file, found {shown(arrays)}"
            )

    def _add_place(self, place: Path) -> None:
        try:
            if place.is_dir():
                self.folders.insert(0, place)
                return
            opened = np.load(place, allow_pickle=False)
            if not isinstance(opened, np.lib.npyio.NpzFile):
                raise GraphFileError(
                    f"load_graph: arrays: expected a folder or a .npz file, found {place}, which "
                    "is one array; name its folder"
                )
            with opened as found:
                self.given = {name: found[name] for name in found.files}
            self._all_needed = True
        except GraphFileError:
            raise
        except (OSError, ValueError, EOFError, MemoryError, zipfile.BadZipFile) as error:
            raise GraphFileError(
                f"load_graph: arrays: {str(place)!a:.200} cannot be read: {error}; name a folder "
                "or a .npz file"
            ) from error

    def named(self, path: str, name: str, number: int) -> Any:
        """The entry given by the user for an operator; None if there is none."""
        file = path.replace("\\", "/").rsplit("/", 1)[-1]
        for key in (path, file, file.removesuffix(".npy"), name, number):
            if key != "" and key in self.given:
                self.used.add(key)
                return self.given[key]
        return None

    def find(self, path: str, name: str, number: int, where: str) -> Any:
        """The array or spec of an operator, given or in a file; None if neither.

        Raises
        ------
        GraphFileError : a file is not an array.
        """
        found = self.named(path, name, number)
        if found is not None or not path:
            return found
        for folder in self.folders:
            place = folder / path
            try:
                if not place.is_file():
                    continue
                if place.stat().st_size > _MOST_BYTES:
                    raise GraphFileError(f"{where}: {place} has more than {_MOST_BYTES:,} bytes")
                with place.open("rb") as opened:
                    return np.lib.format.read_array(opened, allow_pickle=False)
            except (OSError, ValueError, EOFError, MemoryError, OverflowError) as error:
                raise GraphFileError(
                    f"{where}: {place} cannot be read as an array of numpy: {error}"
                ) from error
        return None

    def check_used(self, where: str) -> None:
        """Refuse arrays given by name that no operator reads."""
        unused = [key for key in self.given if key not in self.used] if self._all_needed else []
        if unused:
            raise ArgError(
                f"{where}: no SelectGen, MetadataGen or load reads arrays[{shown(unused[0])}]; "
                "keys are the paths, names or ids of such operators"
            )


def as_array(found: Any, where: str) -> np.ndarray[Any, Any]:
    """The user's entry as an array of whole numbers."""
    try:
        array = np.asarray(found)
    except ValueError:
        raise GraphFileError(f"{where}: the rows of its array differ in length") from None
    if array.dtype == np.bool_:
        array = array.astype(np.int64)
    if array.dtype.kind == "f" and array.size:
        whole = (np.abs(array) < 2**63) & (array == np.floor(array))
        array = array.astype(np.int64) if bool(whole.all()) else array
    if array.dtype.kind not in "iu":
        raise GraphFileError(
            f"{where}: expected an array of whole numbers, found {array.dtype} of shape "
            f"{array.shape}"
        )
    return array


def flags_of(
    indices: np.ndarray[Any, Any], width: int, dims: Sequence[int] | None, where: str
) -> np.ndarray[Any, Any]:
    """Selectors of a routing ``[tokens, k]``: k-hot for each token, or one-hot for each entry.

    ``dims`` decides which, if known.
    """
    if indices.size and not 0 <= int(indices.min()) <= int(indices.max()) < width:
        raise GraphFileError(
            f"{where}: routing names expert {int(indices.max())}; the selectors are {width} wide"
        )
    tokens, k = indices.shape
    count = None if dims is None else int(np.prod(dims))
    if count is not None and count == tokens * k and k > 1:
        one_hot = np.zeros((tokens * k, width), dtype=np.int64)
        one_hot[np.arange(tokens * k), indices.ravel()] = 1
        return one_hot.reshape(*(dims or ()), width)
    if count not in (None, tokens):
        raise GraphFileError(
            f"{where}: routing has {tokens} tokens of {k} experts, but the selectors have the "
            f"shape {list(dims or ())}"
        )
    again = np.sort(indices, axis=1)
    twice = np.flatnonzero((again[:, 1:] == again[:, :-1]).any(axis=1))
    if twice.size:
        raise GraphFileError(
            f"{where}: routing names an expert twice for token {twice[0]}: "
            f"{indices[twice[0]].tolist()}"
        )
    hot = np.zeros((tokens, width), dtype=np.int64)
    hot[np.arange(tokens)[:, np.newaxis], indices] = 1
    return hot.reshape(*(dims if dims is not None else (1, tokens)), width)


def is_spec(found: Any) -> bool:
    """Whether only a shape was given."""
    return isinstance(found, TensorSpec)
