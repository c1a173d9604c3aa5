"""The ``stepsim`` command: its parts, and how errors become messages and exit codes.

Nothing heavy is imported before a command runs, so that ``--help`` and errors return quickly.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.machinery import ExtensionFileLoader
from pathlib import Path
from types import FrameType, ModuleType
from typing import Annotated, Final

import typer

from stepsim._version import __version__
from stepsim.cli.commands import CommandGroup
from stepsim.cli.exit_codes import (
    BAD_INPUT,
    MEANINGS,
    NOT_WRITTEN,
    RUN_FAILED,
    code_of,
    is_no_room,
)
from stepsim.errors import StepSimError

_LEAVE_CYCLES: Final = {"_yaml", "llvmlite", "numba", "numpy", "pyarrow", "yaml"}
"""Packages whose extension modules tolerate reference cycles left at the end of a process."""

app = typer.Typer(
    name="stepsim",
    cls=CommandGroup,
    help="Exact, fast simulation of Streaming Tensor Programs on spatial dataflow accelerators.",
    epilog=f"Exit codes: {', '.join(f'{code} {what}' for code, what in MEANINGS.items())}, "
    "128 + n ended by signal n.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"stepsim {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Print the version and exit.",
        ),
    ] = False,
) -> None:
    pass


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; always ends in `SystemExit`.

    Parameters
    ----------
    arguments : the arguments after the program's name; None means those of this process.
    """
    if arguments is None:
        _prepare_process()
    try:
        try:
            app(args=None if arguments is None else list(arguments), prog_name="stepsim")
        finally:
            # Writing what is still buffered may fail too, which must be reported.
            sys.stdout.flush()
    except StepSimError as error:
        sys.stderr.write(f"error: {error}\n")
        raise SystemExit(code_of(error)) from None
    except BrokenPipeError:
        # The reader closed the pipe, as in `stepsim ... | head`.
        _drop_output()
        raise SystemExit(RUN_FAILED) from None
    except OSError as error:
        reason = error.strerror or str(error)
        if error.filename is None:
            _drop_output()
            sys.stderr.write(f"error: the output cannot be written: {reason}\n")
            raise SystemExit(NOT_WRITTEN if is_no_room(error) else RUN_FAILED) from None
        sys.stderr.write(f"error: {error.filename}: {reason}\n")
        raise SystemExit(BAD_INPUT) from None


def _drop_output() -> None:
    """Discard what stdout still buffers; otherwise Python would fail again when it exits."""
    with suppress(OSError, ValueError), Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


def _prepare_process() -> None:
    """Save a third of the start-up time of a process that only serves one command."""
    # Threads of OpenBLAS otherwise wait in a loop, at first 30 ms of CPU time, for work that a run
    # does not have. It reads this when numpy is imported.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
    # Building a program makes many long-lived objects without reference cycles among them.
    gc.set_threshold(200_000, 20, 20)
    atexit.register(_leave_cycles)
    sys.meta_path.insert(0, _WithoutPandas())


def _leave_cycles() -> None:
    """Skip the last search for reference cycles, which takes a fifth of a short run.

    Third-party extension modules may rely on it: those made with nanobind report leaks.
    """
    specs = (getattr(module, "__spec__", None) for module in list(sys.modules.values()))
    extensions = (spec for spec in specs if spec and isinstance(spec.loader, ExtensionFileLoader))
    loaded = {spec.name.partition(".")[0] for spec in extensions}
    if loaded <= _LEAVE_CYCLES | sys.stdlib_module_names:
        gc.freeze()


class _WithoutPandas:
    """Hides pandas from pyarrow, which imports it wherever it is installed; nothing here needs it.

    Code of users and of other packages gets it.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        if fullname == "pandas" and _importer() in ("pyarrow", "stepsim"):
            raise ModuleNotFoundError("not needed on the command line", name=fullname)


def _importer() -> str:
    """The package of the code that imports; compiled code counts as its caller."""
    frame = sys._getframe(2)
    while frame.f_back is not None and _package(frame) == "importlib":
        frame = frame.f_back
    return _package(frame)


def _package(frame: FrameType) -> str:
    name: str = frame.f_globals.get("__name__", "")
    return name.partition(".")[0]
