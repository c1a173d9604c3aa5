"""``python -m tests.equal_numbers.arm64 FOLDER``: digests of numbers on arm64, emulated by QEMU.

QEMU and a Python for arm64 are packages of Debian, unpacked into the folder and not installed;
libraries are wheels for arm64 in the versions of requirements.lock. Names of groups may follow. An
engine takes minutes to compile there.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
_SOURCES = Path("/etc/apt/sources.list.d/debian.sources")
"""Of the packages; others that a machine has need not have arm64."""
_EMULATOR = "usr/bin/qemu-aarch64-static"
_PYTHON = "usr/bin/python3"
_PACKAGES = ("python3", "libstdc++6", "libgomp1")
_WHEELS = tuple(f"manylinux_2_{minor}_aarch64" for minor in (28, 27, 17))
_NOT_NEEDED = ("hatchling", "matplotlib", "contourpy", "fonttools", "kiwisolver", "pillow")


def main() -> int:
    """Exit code 1, and the names of the groups, if any number differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.equal_numbers.arm64")
    parser.add_argument("folder", type=Path, help="where packages are unpacked and code is kept")
    parser.add_argument("groups", nargs="*", help="groups of numbers; all without any")
    given = parser.parse_args()
    folder = given.folder.resolve()
    made = folder / "made"
    if not made.exists():
        _debian(folder)
        _wheels(folder)
        made.touch()
    return _emulated(folder, "-m", "tests.equal_numbers.digest", *given.groups).returncode


def _debian(folder: Path) -> None:
    """The emulator for this machine, and a system with Python for arm64."""
    apt = folder / "apt"
    for name in ("lists/partial", "archives/partial", "host"):
        (apt / name).mkdir(parents=True, exist_ok=True)
    (apt / "status").touch()
    sources = apt / "sources"
    sources.mkdir(exist_ok=True)
    if _SOURCES.exists():
        shutil.copy(_SOURCES, sources)
    settings = apt / "apt.conf"
    settings.write_text(
        'APT::Architecture "arm64"; APT::Architectures { "arm64"; }; APT::Sandbox::User "root";\n'
        f'Dir::State "{apt}"; Dir::State::status "{apt}/status"; Dir::Cache "{apt}";\n'
        f'Dir::Etc::sourceparts "{sources}";\n',
        encoding="utf-8",
    )
    get = ("env", f"APT_CONFIG={settings}", "apt-get", "-qy")
    _run(*get, "update")
    _run(*get, "install", "--download-only", "--no-install-recommends", *_PACKAGES)
    for package in sorted((apt / "archives").glob("*.deb")):
        _run("dpkg-deb", "-x", str(package), str(folder / "arm64"))
    _run("apt-get", "-q", "download", "qemu-user-static", folder=apt / "host")
    (package,) = (apt / "host").glob("*.deb")
    _run("dpkg-deb", "-x", str(package), str(folder / "host"))


def _wheels(folder: Path) -> None:
    """The libraries that a run needs."""
    found = _emulated(folder, "-c", "import sys; print('%d.%d' % sys.version_info[:2])", read=True)
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    wanted = [
        line
        for line in re.findall(r"^[\w.-]+==\S+", lock, re.MULTILINE)
        if line.partition("==")[0] not in _NOT_NEEDED
    ]
    platforms = [f"--platform={name}" for name in (*_WHEELS, "any")]
    _run(
        sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:",
        f"--python-version={found.stdout.strip()}", *platforms, f"--dest={folder / 'wheels'}",
        *wanted,
    )  # fmt: skip
    for wheel in (folder / "wheels").glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder / "libraries")


def _emulated(folder: Path, *words: str, read: bool = False) -> subprocess.CompletedProcess[str]:
    """A run of Python for arm64."""
    system = folder / "arm64"
    libraries = f"{ROOT}{os.pathsep}{folder / 'libraries'}"
    command = [str(folder / "host" / _EMULATOR), "-L", str(system), str(system / _PYTHON), *words]
    own = {name: value for name, value in os.environ.items() if not name.startswith("OPENBLAS_")}
    own |= {"PYTHONPATH": libraries, "STEPSIM_CACHE_DIR": str(folder / "cache")}
    return subprocess.run(
        command, cwd=ROOT, env={**own, "PYTHONDONTWRITEBYTECODE": "1"}, check=read, text=True,
        stdout=subprocess.PIPE if read else None,
    )  # fmt: skip


def _run(*words: str, folder: Path | None = None) -> None:
    subprocess.run(words, cwd=folder, check=True)


if __name__ == "__main__":
    sys.exit(main())
