"""Damaged files of stored machine code."""

from __future__ import annotations

import random

from stepsim.errors import StepSimError
from stepsim.kernels.build.entries import SUFFIX, Code, EntryFiles, UnusableError
from tests.fuzz.mutation import damaged_bytes
from tests.fuzz.reading import outcome, scratch

__all__ = ["one"]

_KEYS = (("kernel", 1), ("kernel", 2))
_STORED = {
    _KEYS[0]: Code("shared", bytes(range(256)) * 4),
    _KEYS[1]: Code("object", bytes(range(256)) * 4),
}


def one(rng: random.Random) -> str:
    """Damage one entry and load it: what was stored or nothing."""
    folder = scratch() / "entries"
    folder.mkdir(exist_ok=True)
    for path in folder.iterdir():
        path.unlink()
    files = EntryFiles(folder, "twice", "stamp")
    for key, code in _STORED.items():
        files.save(key, code)
    # Each key has a file, in the order of neither.
    paths = sorted(folder.glob(f"*{SUFFIX}"))
    assert len(paths) == len(_KEYS)
    chosen = rng.choice(paths)
    content = damaged_bytes(rng, chosen.read_bytes(), rng.choice(paths).read_bytes())
    chosen.unlink()
    chosen.write_bytes(content)
    asked = rng.choice(_KEYS)

    def read() -> None:
        try:
            found = files.load(asked)
        except UnusableError as error:  # on which the kernels are compiled anew
            raise StepSimError(str(error)) from error
        assert found == _STORED[asked], "other code than was stored"

    return outcome(read, "entry", content)
