"""Compile the engine for a wheel: once for each level of processors of this kind of machine.

``python -m stepsim.kernels.build.shipping FOLDER`` writes a file for every level and every entry
point of :data:`stepsim.kernels.all_engines.ENGINES`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from stepsim.errors import UserCodeError
from stepsim.kernels.all_engines import ENGINES
from stepsim.kernels.build.cache_key import COMPILED_GROUPS
from stepsim.kernels.build.processors import LEVELS
from stepsim.plugins import usable


def ship(folder: Path) -> None:
    """Compile for every level, each in a process of its own: a compiler has one processor.

    Raises:
        UserCodeError: a plugin offers kernels, which are no part of a wheel.
    """
    plugins = [plugin for group in COMPILED_GROUPS for plugin in usable(group)]
    if plugins:
        raise UserCodeError(
            f"the package {plugins[0].package} offers kernels, which would be compiled into the "
            "wheel; build it in an environment without that package"
        )
    kept = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    root = Path(__file__).parents[3]
    command = [sys.executable, "-m", __spec__.name, str(folder.resolve())]
    # Numba is told of settings by files in the folder where it starts, too.
    with tempfile.TemporaryDirectory(prefix="stepsim-") as empty:
        for level, name in LEVELS.items():
            told = {"NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": ""}
            environment = {**kept, **told, "PYTHONPATH": str(root)}
            subprocess.run([*command, level], cwd=empty, env=environment, check=True)


if __name__ == "__main__":
    where = Path(sys.argv[1])
    if len(sys.argv) == 2:
        ship(where)
    else:
        for entries in ENGINES.values():
            for entry in entries:
                entry.build(where, sys.argv[2])
