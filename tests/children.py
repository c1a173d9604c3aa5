"""Child processes of tests, which no failing test leaves behind or waits for."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import psutil

__all__ = ["started"]


@contextmanager
def started(command: Sequence[Any], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """A process as :class:`subprocess.Popen` starts it, ended with its own children on failure.

    ``Popen`` as a context manager waits for the process without a limit, also when the block has
    raised: a test that fails because its process does not end would hang.
    """
    with subprocess.Popen(command, **options) as process:
        try:
            yield process
        except BaseException:
            with suppress(psutil.NoSuchProcess):
                for child in psutil.Process(process.pid).children(recursive=True):
                    with suppress(psutil.NoSuchProcess):
                        child.kill()
            process.kill()
            raise
