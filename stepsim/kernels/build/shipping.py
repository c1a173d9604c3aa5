"""Compile the engine for a wheel: once for each level of processors of this kind of machine.

``python -m stepsim.kernels.build.shipping FOLDER`` writes a file for every level and every entry
point of :data:`stepsim.kernels.all_engines.ENGINES`, or of those named
behind the folder, with commas.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from stepsim.errors import ArgError, UserCodeError
from stepsim.kernels.all_engines import ENGINES
from stepsim.kernels.build.cache_key import COMPILED_GROUPS
from stepsim.kernels.build.processors import LEVELS
from stepsim.plugins import usable
from stepsim.shown import shown


def ship(folder: Path, engines: Sequence[str] = tuple(ENGINES)) -> None:
    """Compile for every level, each in a process of its own: a compiler has one processor.

    Raises:
        ArgError: a name that no engine has.
        UserCodeError: a plugin offers kernels, which are no part of a wheel.
    """
    unknown = [name for name in engines if name not in ENGINES]
    if unknown:
        raise ArgError(
            f"there is no engine {shown(unknown[0])} for a wheel; engines are {', '.join(ENGINES)}"
        )
    plugins = [plugin for group in COMPILED_GROUPS for plugin in usable(group)]
    if plugins:
        raise UserCodeError(
            f"the package {plugins[0].package} offers kernels, which would be compiled into the "
            "wheel; build it in an environment without that package"
        )
    kept = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    root = Path(__file__).parents[3]
    command = [sys.executable, "-m", __spec__.name, str(folder.resolve()), ",".join(engines)]
    # Numba also reads settings from files in the folder where it starts.
    with tempfile.TemporaryDirectory(prefix="stepsim-") as empty:
        for level, name in LEVELS.items():
            settings = {"NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": ""}
            environment = {**kept, **settings, "PYTHONPATH": str(root)}
            subprocess.run([*command, level], cwd=empty, env=environment, check=True)


if __name__ == "__main__":
    where, *rest = sys.argv[1:]
    if len(rest) == 2:  # the names of engines and a level, from the function above
        for name in rest[0].split(","):
            for entry in ENGINES[name]:
                entry.build(Path(where), rest[1])
    else:
        ship(Path(where), rest[0].split(",") if rest else tuple(ENGINES))
