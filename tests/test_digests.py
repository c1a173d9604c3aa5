"""Digests are those of hashlib, whichever code computes them."""

from __future__ import annotations

import hashlib
import subprocess
import sys

import pytest

from stepsim import digests


@pytest.mark.parametrize("size", [0, 1, 1000, 5 << 20])
def test_digests_are_those_of_hashlib(size: int) -> None:
    content = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    assert digests.sha256(content).hexdigest() == hashlib.sha256(content).hexdigest()
    assert digests.sha256(b"", size).digest() == hashlib.sha256().digest()
    own = hashlib.blake2b(content, digest_size=32)
    assert digests.blake2b(content).digest() == own.digest()


def test_an_interpreter_without_its_own_modules_uses_hashlib(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("_blake2", "_sha2", "_sha256"):
        monkeypatch.setitem(sys.modules, name, None)
    assert digests.sha256(b"a").hexdigest() == hashlib.sha256(b"a").hexdigest()
    assert digests.blake2b(b"a").digest() == hashlib.blake2b(b"a", digest_size=32).digest()


def test_small_contents_need_no_openssl() -> None:
    code = (
        "import sys; from stepsim.digests import sha256, blake2b; sha256(b'a'); blake2b(b'a'); "
        "assert '_hashlib' not in sys.modules, 'OpenSSL was loaded'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
