import asyncio
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.session_kit import git, make_project
from tui.composing.file_index import FileIndex, _Names

FILES = (
    "README.md", "tui/app.py", "tui/widgets/composer.py", "tui/widgets/completion.py", "tui/screens/approval.py",
    "agent/permissions/approval.py", "agent/context/cut.py", "agent/config/keys.py", "tests/tui/test_composer.py",
    "docs/two words.md", ".github/workflows/ci.yml", "src/config_glob.ts", "a/b/c/d/e/app.py",
)  # fmt: skip


async def listed(folder: Path) -> FileIndex:
    index = FileIndex(folder)
    found = index.find("x")
    await index.refresh()
    assert found == [] and not index.is_stale
    return index


async def test_what_git_ignores_is_left_out_and_hidden_files_are_not(tmp_path: Path) -> None:
    make_project(tmp_path, dict.fromkeys(FILES, "") | {".gitignore": "build/\n*.o\n", "build/x": "", "tui/y.o": ""})
    git(tmp_path, "init", "-q")
    index = await listed(tmp_path)
    assert index.find("", 100)[:2] == ["README.md", "a/"]
    assert not index.find("build") and not index.find("y.o") and not index.find("HEAD")
    assert index.find("ci.yml") == [".github/workflows/ci.yml"] and index.find("gitignore") == [".gitignore"]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("app", "tui/app.py"),
        ("APP.PY", "tui/app.py"),
        ("composer", "tui/widgets/composer.py"),
        ("cmpsr", "tui/widgets/composer.py"),
        ("tw/comp", "tui/widgets/composer.py"),
        ("tuiwid", "tui/widgets/"),
        ("wid", "tui/widgets/"),
        ("tui/", "tui/"),
        ("./tui/app", "tui/app.py"),
        ("cfg", "src/config_glob.ts"),
        ("two w", "docs/two words.md"),
        ("test_", "tests/tui/test_composer.py"),
        ("agent/perm", "agent/permissions/approval.py"),
        ("readme", "README.md"),
    ],
)
def test_the_best_fit_comes_first(query: str, first: str) -> None:
    folders = {str(parent) + "/" for name in FILES for parent in Path(name).parents if str(parent) != "."}
    assert _Names([*FILES, *folders]).find(query, 5)[0] == first


@given(
    st.lists(st.text("abcAB/._é\n", min_size=1, max_size=8), unique=True, max_size=30),
    st.lists(st.text("abc/é.", min_size=1, max_size=4), min_size=1, max_size=4),
)
def test_what_is_found_holds_the_letters_in_order_whatever_was_typed_before(
    paths: list[str], queries: list[str]
) -> None:
    names = _Names(paths)
    for query in queries:
        found = names.find(query, len(paths) + 1)

        def fits(path: str, query: str = query) -> bool:
            letters = iter(path.lower().replace("\n", " "))
            return all(letter in letters for letter in query.lower().removeprefix("./"))

        assert len(set(found)) == len(found)
        assert all(fits(path) for path in found)
        if len(found) < 10:
            assert set(found) == {path for path in paths if fits(path)}


async def test_names_of_any_bytes_and_folders_that_cannot_be_listed(tmp_path: Path) -> None:
    for name in (b"new\nline", b"esc\x1b[31m", b"\xff\xfe.txt", "漢字 👩‍💻".encode(), b'quo"te', b"-rf", b"[b]x[b]"):
        Path(os.fsdecode(bytes(tmp_path) + b"/" + name)).touch()
    index = await listed(tmp_path)
    assert len(index) == 7 and index.find("漢") == ["漢字 👩‍💻"] and index.find("newline") == ["new\nline"]
    assert len(await listed(tmp_path / "gone")) == 0
    assert len(await listed(tmp_path / "-rf")) == 0


async def test_a_list_that_is_made_anew_replaces_the_old_one_at_once(tmp_path: Path) -> None:
    (tmp_path / "old.py").touch()
    index = await listed(tmp_path)
    (tmp_path / "old.py").rename(tmp_path / "new.py")
    work = asyncio.create_task(index.refresh())
    await asyncio.sleep(0)
    assert not index.is_stale and index.find("py") == ["old.py"]
    await work
    assert index.find("py") == ["new.py"]


async def test_below_the_top_of_the_project_all_of_it_is_offered_as_seen_from_there(tmp_path: Path) -> None:
    make_project(tmp_path, {"README.md": "", "src/app.py": "", "src/inner/deep.py": ""})
    index = FileIndex(tmp_path, tmp_path / "src")
    await index.refresh()
    assert index.find("app") == ["app.py"] and index.find("deep") == ["inner/deep.py"]
    assert index.find("readme") == ["../README.md"] == index.find("../readme")
    assert "./" in index.find("", 10) and "../README.md" in index.find("", 10)


async def test_a_list_is_old_after_a_while_and_the_later_the_longer_it_took(tmp_path: Path) -> None:
    times = [100.0]
    index = FileIndex(tmp_path, clock=lambda: times[-1])

    def stale_at(time_s: float) -> bool:
        times.append(time_s)
        return index.is_stale

    assert stale_at(100)
    await index.refresh()
    assert [stale_at(105), stale_at(105.1)] == [False, True]
    work = asyncio.create_task(index.refresh())
    await asyncio.sleep(0)
    assert not stale_at(107.1)  # it is being made
    await work
    assert [stale_at(127), stale_at(127.2)] == [False, True]
