"""Wheels that carry the compiled engine, for those who do not want to wait at the first run."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_FOLDER = "stepsim/kernels/built"


class PlatformWheel(BuildHookInterface[Any]):
    """Compiles engines into the wheel: all, or those of STEPSIM_PLATFORM_WHEEL."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Without the variable, and for editable installs, the wheel is for all machines."""
        engines = os.environ.get("STEPSIM_PLATFORM_WHEEL", "")
        if not engines or version == "editable":
            return
        named = [] if engines == "1" else [engines]
        self._made = tempfile.TemporaryDirectory(prefix="stepsim-wheel-")
        subprocess.run(
            [sys.executable, "-m", "stepsim.kernels.build.shipping", self._made.name, *named],
            cwd=self.root, env={**os.environ, "PYTHONPATH": self.root}, check=True,
        )  # fmt: skip
        for path in Path(self._made.name).iterdir():
            build_data["force_include"][str(path)] = f"{_FOLDER}/{path.name}"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{_platform()}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """The wheel is written."""
        if build_data.get("pure_python") is False:
            self._made.cleanup()


def _platform() -> str:
    # The code names no library and no version of a symbol: no Linux that numpy runs on is too old.
    if sys.platform == "linux":
        return f"manylinux_2_17_{platform.machine()}"
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")
