"""``--update-cycles``: what is written, what stays, what is refused."""

from __future__ import annotations

import os

import pytest

from tests.pytest_plugin.conftest import Project, failure

pytest_plugins = "pytester"

TWO = (
    "@pytest.mark.parametrize('tile', [8, 16])\n"
    "def test_tile(cycles, tile):\n"
    "    cycles.check(linear(tile=tile), name='small')\n"
    "    cycles.check(linear(rows=128, tile=tile), name='large')\n"
    "class TestOther:\n"
    "    def test_one(self, cycles):\n"
    "        cycles.check(linear())\n"
)


def test_every_check_of_every_test_has_its_entry(project: Project) -> None:
    project.write(TWO)
    done = project.update()
    done.stdout.fnmatch_lines(["test_layer.cycles.json: 5 baselines written"])
    found = project.baselines()
    assert {test: [*checks] for test, checks in found.items()} == {
        "TestOther::test_one": ["linear"],
        "test_tile[16]": ["large", "small"],
        "test_tile[8]": ["large", "small"],
    }
    assert list(found) == sorted(found)
    assert found["test_tile[8]"]["large"]["cycles"] != found["test_tile[8]"]["small"]["cycles"]
    assert project.run().ret == 0


@pytest.mark.slow
def test_what_is_equal_is_not_written_again(project: Project) -> None:
    project.write(TWO)
    project.update()
    os.utime(project.file(), (1, 1))
    project.update().stdout.fnmatch_lines(["*: 0 baselines written, 5 unchanged"])
    assert project.file().stat().st_mtime == 1


def test_only_what_ran_is_rewritten(project: Project) -> None:
    project.write(TWO)
    project.update()
    project.edit(r'"flops": \d+', '"flops": 3')
    done = project.update("-k", "test_tile and 16")
    done.stdout.fnmatch_lines(["*: 2 baselines written, 3 of tests that did not run kept"])
    flops = {
        (test, name): entry["flops"]
        for test, checks in project.baselines().items()
        for name, entry in checks.items()
    }
    assert {test for test, number in flops.items() if number != 3} == {
        ("test_tile[16]", "large"),
        ("test_tile[16]", "small"),
    }


@pytest.mark.slow
def test_entries_that_a_test_no_longer_checks_are_removed(project: Project) -> None:
    project.write(TWO)
    project.update()
    project.write(TWO.replace("name='large'", "name='big'"))
    project.update().stdout.fnmatch_lines(["*: 2 baselines written, 3 unchanged, 2 removed"])
    assert [*project.baselines()["test_tile[8]"]] == ["big", "small"]
    project.write("def test_tile(cycles):\n    pass\n")
    project.update().stdout.fnmatch_lines(["*: 0 baselines written, 5 of tests that did not run*"])


def test_a_file_without_baselines_is_removed(project: Project) -> None:
    project.write("def test_a(cycles):\n    cycles.check(linear())\n")
    project.update()
    project.write("def test_a(cycles):\n    pass\n")
    project.update().stdout.fnmatch_lines(["*: 0 baselines written, 1 removed"])
    assert not project.file().exists()


@pytest.mark.slow
def test_a_test_that_fails_keeps_the_entries_it_did_not_get_to(project: Project) -> None:
    project.write(TWO)
    project.update()
    project.write(TWO.replace("name='small')\n", "name='small')\n    assert tile != 8\n"))
    done = project.run("--update-cycles")
    assert done.ret == 1
    assert [*project.baselines()["test_tile[8]"]] == ["large", "small"]


def test_files_of_tests_in_folders(project: Project) -> None:
    folder = project.pytester.mkdir("deep")
    project.write(TWO, "test_deep")
    (project.pytester.path / "test_deep.py").rename(folder / "test_deep.py")
    project.write("def test_a(cycles):\n    cycles.check(linear())\n")
    project.update("-p", "no:xdist").stdout.fnmatch_lines(
        ["deep/test_deep.cycles.json: 5 *", "test_layer.cycles.json: 1 baseline written"]
    )
    assert (folder / "test_deep.cycles.json").exists()


def test_conflict_markers_are_never_overwritten(project: Project) -> None:
    project.write("def test_a(cycles):\n    cycles.check(linear())\n")
    project.update()
    project.edit("^{\n", "{\n<<<<<<< ours\n")
    damaged = project.file().read_text()
    assert "test_layer.cycles.json:2:1: not valid JSON" in failure(project.run())
    done = project.run("--update-cycles")
    assert done.ret == 1
    done.stdout.fnmatch_lines(["error: baselines *test_layer.cycles.json:2:1: not valid JSON*"])
    assert project.file().read_text() == damaged


def test_a_file_that_cannot_be_written_fails_the_session(project: Project) -> None:
    project.write("def test_a(cycles):\n    cycles.check(linear())\n")
    project.file().mkdir()
    done = project.run("--update-cycles")
    assert done.ret == 1
    done.stdout.fnmatch_lines(["error: baselines *test_layer.cycles.json: cannot be read: *"])


@pytest.mark.parametrize("scope", ["", "@pytest.mark.skip\n", "@pytest.mark.xfail\n"])
def test_tests_without_checks_leave_no_file(project: Project, scope: str) -> None:
    project.write(f"{scope}def test_a(cycles):\n    assert not {bool(scope)}\n")
    done = project.update()
    assert not project.file().exists()
    assert "error" not in done.stdout.str()


FIXTURES = (
    "@pytest.fixture\n"
    "def around(cycles):\n"
    "    cycles.check(linear(), name='before')\n"
    "    yield\n"
    "    cycles.check(linear(rows=32), name='after')\n"
    "def test_a(around):\n"
    "    pass\n"
)


@pytest.mark.slow
def test_checks_of_fixtures_are_recorded(project: Project) -> None:
    project.write(FIXTURES)
    project.update().stdout.fnmatch_lines(["*: 2 baselines written"])
    assert [*project.baselines()["test_a"]] == ["after", "before"]
    project.run().assert_outcomes(passed=1)
    project.edit(r'"cycles": 896', '"cycles": 895')
    project.run().assert_outcomes(errors=1)
    project.write(FIXTURES.replace("    pass", "    assert 0"))
    assert project.run("--update-cycles").ret == 1
    assert [*project.baselines()["test_a"]] == ["after", "before"]


def test_a_teardown_that_fails_keeps_the_entries_it_did_not_get_to(project: Project) -> None:
    project.write(FIXTURES)
    project.update()
    project.write(FIXTURES.replace("    yield\n", "    yield\n    assert 0\n"))
    assert project.run("--update-cycles").ret == 1
    assert [*project.baselines()["test_a"]] == ["after", "before"]


@pytest.mark.slow
@pytest.mark.parametrize("left", ["def test_tile(cycles, tile)", "def test_tile(tile)"])
def test_a_guard_that_is_gone_is_reported(project: Project, left: str) -> None:
    project.write(TWO)
    project.update()
    body = TWO.replace("def test_tile(cycles, tile)", left).replace(
        "    cycles.check(linear(rows=128, tile=tile), name='large')\n", ""
    )
    if "cycles" not in left:
        body = body.replace("    cycles.check(linear(tile=tile), name='small')\n", "    pass\n")
    project.write(body)
    done = project.run()
    assert done.ret == 0
    names = "'large'" if "cycles" in left else "'large', 'small'"
    done.stdout.fnmatch_lines(
        [
            f"test_layer.cycles.json: test_tile?8?: passed, but did not check {names}, which *"
            "pytest test_layer.py --update-cycles removes *"
        ]
    )
    assert "TestOther" not in done.stdout.str()
    removed = 2 * names.count(",") + 2
    project.update().stdout.fnmatch_lines([f"*, {removed} removed*"])
    assert "did not check" not in project.run().stdout.str()


@pytest.mark.slow
def test_a_guard_that_was_not_reached_is_not_reported(project: Project) -> None:
    project.write(TWO)
    project.update()
    project.write(TWO.replace("name='small')\n", "name='small')\n    pytest.skip('here')\n"))
    done = project.run()
    done.assert_outcomes(passed=1, skipped=2)
    assert "did not check" not in done.stdout.str()


def test_the_command_holds_where_pytest_was_started(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project.pytester.mkdir("my tests")
    project.write("def test_a(cycles):\n    cycles.check(linear())\n", "test_deep")
    (project.pytester.path / "test_deep.py").rename(folder / "test_deep.py")
    project.pytester.makeini("[pytest]\n")
    assert "pytest 'my tests/test_deep.py' --update-cycles" in failure(project.run())
    other = project.pytester.mkdir("other")
    monkeypatch.chdir(other)
    said = failure(project.run(str(folder)))
    assert "pytest '../my tests/test_deep.py' --update-cycles" in said
