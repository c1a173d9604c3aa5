"""Build, check and install the distributions: ``python -m tests.packages``, or ``make packages``.

The source distribution, the plain wheel that is built from it and the wheel of this platform are
checked by twine and check-wheel-contents, and installed into empty environments: without extras and
with each of them, with the oldest and the newest versions that they allow. Each environment shows
that it works by ``tests/packages/smoke.py``. What was found is in ``build/packages/matrix.csv``;
with ``--page`` the table of ``docs/stability.md`` is written anew.
"""

from __future__ import annotations

import argparse
import csv
import os
import platform
import shutil
import subprocess
import sys
import time
import venv
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Final

from tests.packages.page import write_page
from tests.packages.requirements import EXTRAS, ROOT, oldest, requirements
from tests.packages.smoke import DEMO, EXTRAS as SMOKE

_OUT: Final = ROOT / "build" / "packages"
_SKIPPED: Final = {"torch": "by make test-torch, as its usual build for Linux is gigabytes of CUDA"}
_LINES: Final = 15


@dataclass(frozen=True)
class Row:
    """What was found of one environment."""

    distribution: str
    extra: str
    versions: str
    result: str
    seconds: int
    installed: str


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _run(command: Sequence[str | Path], folder: Path = ROOT, **variables: str) -> str:
    """Run a command; what it printed, or SystemExit with its last lines."""
    done = subprocess.run(
        [str(one) for one in command], cwd=folder, text=True, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, **variables},
    )  # fmt: skip
    if done.returncode:
        tail = "\n".join(done.stdout.splitlines()[-_LINES:])
        raise RuntimeError(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{tail}")
    return done.stdout


def _environment(folder: Path) -> Path:
    """The Python of a new, empty environment."""
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=True)
    return folder / "bin" / "python"


def build(engines: str) -> dict[str, Path]:
    """The distributions by kind, checked."""
    dist = _OUT / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    make = [sys.executable, "-m", "build", "--no-isolation", "--outdir", dist]
    _run(make)
    (sdist,), (plain,) = dist.glob("*.tar.gz"), dist.glob("*-none-any.whl")
    _run([*make, "--wheel"], STEPSIM_PLATFORM_WHEEL=engines)
    (native,) = set(dist.glob("*.whl")) - {plain}
    found = {"sdist": sdist, "wheel": plain, "platform wheel": native}
    tools = _environment(_OUT / "tools")
    _run([tools, "-m", "pip", "install", "--quiet", "twine", "check-wheel-contents"])
    _say(_run([tools, "-m", "twine", "check", "--strict", *found.values()]))
    # Data files beside modules are wanted; there is one package at the top.
    _say(_run([tools.with_name("check-wheel-contents"), "--toplevel", "stepsim", plain, native]))
    return found


@dataclass(frozen=True)
class Install:
    """An environment to try."""

    distribution: str
    extra: str
    versions: str


def installs(only: Sequence[str]) -> Iterator[Install]:
    """Every environment; of extras only those named, if any are."""
    if not only:
        yield Install("wheel", "", "newest")
        yield Install("wheel", "", "oldest")
        yield Install("platform wheel", "", "newest")
        yield Install("sdist", "", "newest")
    for extra in EXTRAS:
        if not only or extra in only:
            yield Install("wheel", extra, "newest")
            yield Install("wheel", extra, "oldest")


def attempt(one: Install, path: Path) -> Row:
    """Install it and see whether it works."""
    began = time.monotonic()
    folder, extras = _OUT / "environment", [one.extra] if one.extra else []
    constraints = _OUT / "oldest.txt"
    constraints.write_text("\n".join([*oldest(*extras), ""]), encoding="utf-8")
    result, listed = "works", ""
    try:
        python = _environment(folder)
        wanted = f"stepsim[{one.extra}] @ {path.as_uri()}" if one.extra else f"{path}"
        pinned = ["-c", constraints] if one.versions == "oldest" else []
        _run([python, "-m", "pip", "install", "--quiet", wanted, *pinned])
        names = ", ".join(f"'{need.name}'" for need in requirements(*extras))
        listed = _run([python, "-c", _VERSIONS.format(names=names)]).strip()
        absent = [extra for extra in EXTRAS if extra not in ("polars", *extras)]
        work = folder / "work"
        work.mkdir()
        code = SMOKE[one.extra] if one.extra else f"ABSENT = {absent}\n{DEMO}"
        (work / "smoke.py").write_text(code, encoding="utf-8")
        _run([python, "smoke.py"], work, STEPSIM_CACHE_DIR=str(_OUT / "cache"))
    except RuntimeError as error:
        _say(str(error))
        result = "fails"
    shutil.rmtree(folder, ignore_errors=True)
    seconds = round(time.monotonic() - began)
    return Row(one.distribution, one.extra, one.versions, result, seconds, listed)


_VERSIONS: Final = """
from importlib.metadata import version
print(" ".join(name + "==" + version(name) for name in ({names},)))
"""


def _write(rows: Sequence[Row]) -> None:
    with (_OUT / "matrix.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["python", *(one.name for one in fields(Row))])
        writer.writerows([platform.python_version(), *astuple(row)] for row in rows)


def main() -> int:
    """Try all environments; the exit code is 1 if one of them fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.packages", description=__doc__)
    parser.add_argument("--extras", nargs="*", default=[], help="only these, with what is built")
    parser.add_argument("--engines", default="1", help="of the platform wheel: 1 for all, or names")
    parser.add_argument("--page", action="store_true", help="write the table of the documentation")
    given = parser.parse_args()
    _OUT.mkdir(parents=True, exist_ok=True)
    paths = build(given.engines)
    rows = []
    for one in installs(given.extras):
        if one.extra in _SKIPPED:
            _say(f"{one.extra}: tried {_SKIPPED[one.extra]}")
            continue
        rows.append(attempt(one, paths[one.distribution]))
        _say(str(rows[-1]))
        _write(rows)
    if given.page:
        write_page(_OUT / "matrix.csv")
    return int(any(row.result != "works" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
