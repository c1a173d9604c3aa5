"""What the last release promised is kept, or its end is announced in the changelog."""

from __future__ import annotations

import copy
import re

import pytest
from packaging.version import Version

from stepsim import __version__
from tests.promises import __main__ as command
from tests.promises.breaks import Break, breaks
from tests.promises.changelog import entries, needed_version, since, unannounced
from tests.promises.snapshot import CHANGELOG, SNAPSHOT, read, text_of
from tests.promises.surface import Surface, surface


@pytest.fixture(scope="module")
def now() -> Surface:
    return surface()


def test_what_was_promised_is_kept_or_its_end_is_announced(now: Surface) -> None:
    release, promised = read()
    section = since(CHANGELOG.read_text(encoding="utf-8"), release)
    silent = "\n".join(map(str, unannounced(breaks(promised, now), section)))
    assert not silent, (
        f"since {release}, this has changed without a line in CHANGELOG.md, below Changed or "
        f"Removed, that names it as code:\n{silent}"
    )


def test_the_snapshot_is_of_this_version() -> None:
    release, promised = read()
    assert release == __version__, "run python -m tests.promises --renew for the release"
    assert SNAPSHOT.read_text(encoding="utf-8") == text_of(release, promised)


def test_nothing_is_promised_that_names_a_place(now: Surface) -> None:
    text = text_of(__version__, now)
    assert not re.search(r"0x[0-9a-f]{6}|<\w+ object", text)


def _changed(now: Surface, kind: str, name: str, value: str | None) -> Surface:
    """A copy in which one promise is another, or is gone."""
    found = copy.deepcopy(now)
    if value is None:
        del found[kind][name]
    else:
        found[kind][name] = value
    return found


def test_a_renamed_column_is_found_until_it_is_announced(now: Surface) -> None:
    renamed = _changed(now, "columns", "cycles", None)
    renamed["columns"]["run_cycles"] = now["columns"]["cycles"]
    (found,) = breaks(now, renamed)
    assert str(found) == "columns: cycles: is gone"
    for silent in (
        "",
        "### Changed\n\n- Runs are faster.\n",
        "### Changed\n\n- The cycles of a run are in another column.\n",  # not as code
        "### Changed\n\n- `engine_cycles` and `--cycles` are new.\n",
        "### Added\n\n- The column `run_cycles`, which was `cycles`.\n",
    ):
        assert unannounced([found], silent) == [found]
    wanted = "### Changed\n\n- The column `cycles` is now\n  `run_cycles`.\n"
    assert unannounced([found], wanted) == []


FORM = "function (program, machine='sda-1024', *, seed=None)"


@pytest.mark.parametrize(
    ("after", "what"),
    [
        (None, "is gone"),
        ("value", "was a function, is a value"),
        ("function (program, *, seed=None)", "parameter machine is gone"),
        (
            FORM.replace("'sda-1024'", "'u55c'"),
            "the default of machine was 'sda-1024', and is 'u55c'",
        ),
        (
            FORM.replace("machine='sda-1024'", "machine"),
            "parameter machine has no default any more",
        ),
        (
            "function (program, *, machine='sda-1024', seed=None)",
            "parameter machine has another place",
        ),
        (
            "function (program, limits=None, machine='sda-1024', *, seed=None)",
            "parameter machine has another place",
        ),
        (
            "function (program, machine='sda-1024', /, *, seed=None)",
            "parameter program cannot be named any more",
        ),
        (
            FORM.replace("seed=None", "seed=None, place"),
            "parameter place is new, without a default",
        ),
    ],
)
def test_what_breaks_a_call_is_found(after: str | None, what: str) -> None:
    before: Surface = {"names": {"st.simulate": FORM}}
    found = breaks(before, {"names": {} if after is None else {"st.simulate": after}})
    assert what in {one.what for one in found}
    assert all(one.words[0] == "simulate" for one in found)


@pytest.mark.parametrize(
    "after",
    [
        FORM,
        FORM.replace("seed=None", "seed=None, place=None"),
        FORM.replace("*, seed", "limits=None, *, seed"),
        FORM.replace("seed=None", "seed=None, **more"),
        FORM.replace("*, seed", "seed").replace("seed=None", "seed=None"),
    ],
)
def test_what_breaks_no_call_is_not(after: str) -> None:
    before: Surface = {"names": {"st.simulate": FORM}}
    kept = breaks(before, {"names": {"st.simulate": after, "st.more": "value"}})
    # An argument that could be given by name alone may get a place.
    assert [one.what for one in kept] == []


@pytest.mark.parametrize(
    ("kind", "name", "after", "words"),
    [
        ("columns", "cycles", "float64 cycles", ("cycles",)),
        ("attributes", "st.Result", "status", ("cycles",)),
        ("options", "stepsim run WORKLOAD", "--set", ("--machine",)),
        ("keys of files", "machine", "name", ("hbm.channels",)),
        ("presets", "machines", "u55c", ("sda-1024",)),
        ("groups of plugins", "groups", "stepsim.clocks", ("stepsim.workloads",)),
        ("parameters of workloads", "moe", "model", ("tile",)),
        ("exit codes", "3", None, ("3",)),
        ("versions of files", "plans", "stepsim plan 2", ("plans",)),
    ],
)
def test_every_kind_of_promise_can_break(
    now: Surface, kind: str, name: str, after: str | None, words: tuple[str, ...]
) -> None:
    found = breaks(now, _changed(now, kind, name, after))
    assert found
    assert all(one.kind == kind and one.name == name for one in found)
    assert words in {one.words for one in found}


def test_everything_is_kept_by_the_same(now: Surface) -> None:
    assert breaks(now, now) == []


def test_what_was_added_may_change(now: Surface) -> None:
    more = copy.deepcopy(now)
    more["columns"]["more"] = "int64 cycles"
    more["options"]["stepsim run WORKLOAD"] += " --more"
    more["names"]["st.more"] = "function ()"
    assert breaks(now, more) == []


def test_an_announcement_of_a_parameter_names_both() -> None:
    one = Break("names", "st.simulate", ("simulate", "machine"), "parameter machine is gone")
    assert unannounced([one], "### Removed\n- `machine=` of `st.simulate`.\n") == []
    apart = "### Removed\n- `machine=` of `st.prepare`.\n- `st.simulate` is quick.\n"
    assert unannounced([one], apart) == [one]


LOG = """# Changelog

## [Unreleased]

### Added

- `more`.

### Changed

- The column `a`
  is gone.
- `b`.

## [1.2.0]

### Removed

- `c`.
"""


def test_only_what_stands_above_the_release_counts() -> None:
    assert entries(since(LOG, "1.2.0")) == ["The column `a` is gone.", "`b`."]
    assert entries(since(LOG, "1.1.0")) == ["The column `a` is gone.", "`b`.", "`c`."]


def test_breaks_need_a_major_version_from_1_on() -> None:
    one = Break("columns", "cycles", ("cycles",), "is gone")
    assert needed_version("0.1.0", [one]) == Version("0.1.0")
    assert needed_version("1.2.3", [one]) == Version("2.0.0")
    assert needed_version("1.2.3", []) == Version("1.2.3")


@pytest.fixture
def files(tmp_path, monkeypatch: pytest.MonkeyPatch, now: Surface):
    """A snapshot and a changelog of their own, of a release of which a column has gone since."""
    older = _changed(now, "columns", "old_column", "int64 cycles")
    (tmp_path / "promises.json").write_text(text_of("1.2.0", older), encoding="utf-8")
    (tmp_path / "CHANGELOG.md").write_text(LOG, encoding="utf-8")
    monkeypatch.setattr(command, "SNAPSHOT", tmp_path / "promises.json")
    monkeypatch.setattr(command, "CHANGELOG", tmp_path / "CHANGELOG.md")
    return tmp_path


@pytest.mark.parametrize(
    ("said", "version", "code", "shown"),
    [
        ("", "2.0.0", 1, "NOT ANNOUNCED columns: old_column: is gone"),
        ("- `old_column` is gone.\n", "1.3.0", 1, "need version 2.0.0 or later, not 1.3.0"),
        ("- `old_column` is gone.\n", "2.0.0", 0, "announced columns: old_column: is gone"),
    ],
)
def test_a_snapshot_is_renewed_when_all_is_announced(
    files, monkeypatch: pytest.MonkeyPatch, capsys, now: Surface,
    said: str, version: str, code: int, shown: str,
) -> None:  # fmt: skip
    log = files / "CHANGELOG.md"
    log.write_text(LOG.replace("- `b`.\n", f"- `b`.\n{said}"), encoding="utf-8")
    monkeypatch.setattr(command, "__version__", version)
    monkeypatch.setattr("sys.argv", ["promises", "--renew"])
    before = (files / "promises.json").read_text(encoding="utf-8")
    assert command.main() == code
    assert shown in capsys.readouterr().out
    after = (files / "promises.json").read_text(encoding="utf-8")
    assert (after == text_of(version, now)) if code == 0 else (after == before)
