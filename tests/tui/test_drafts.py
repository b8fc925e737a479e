import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tui.composing.drafts import Drafts


def files(folder: Path) -> list[str]:
    return sorted(path.suffix for path in folder.iterdir()) if folder.exists() else []


def left_behind(folder: Path, project: str, text: str) -> None:
    """What a claw that was killed leaves."""
    program = "import sys, os; from pathlib import Path; from tui.composing.drafts import Drafts\n"
    program += "Drafts(Path(sys.argv[1]), Path(sys.argv[2])).save(sys.argv[3], 1); os._exit(9)"
    done = subprocess.run([sys.executable, "-c", program, str(folder), project, text], check=False)
    assert done.returncode == 9


def test_what_a_killed_claw_left_is_taken_over_once(tmp_path: Path) -> None:
    left_behind(tmp_path / "d", "/p", "héllo\nworld \x1b")
    drafts = Drafts(tmp_path / "d", Path("/p"))
    assert drafts.adopt() == "héllo\nworld \x1b"
    assert Drafts(tmp_path / "d", Path("/p")).adopt() == ""
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in (tmp_path / "d").iterdir())
    assert stat.S_IMODE((tmp_path / "d").stat().st_mode) == 0o700
    drafts.save("", 1)
    assert files(tmp_path / "d") == []


def test_each_project_and_each_process_has_its_own(tmp_path: Path) -> None:
    first, second = Drafts(tmp_path, Path("/p")), Drafts(tmp_path, Path("/p"))
    first.save("one", 1)
    second.save("two", 1)
    assert Drafts(tmp_path, Path("/p")).adopt() == "" and Drafts(tmp_path, Path("/q")).adopt() == ""
    first.save("", 2)
    assert files(tmp_path) == [".json", ".lock"]


def test_the_newest_of_several_comes_first_and_the_others_wait(tmp_path: Path) -> None:
    left_behind(tmp_path, "/p", "older")
    (older,) = tmp_path.glob("*.json")
    os.utime(older, (1, 1))
    left_behind(tmp_path, "/p", "newer")
    first, second = Drafts(tmp_path, Path("/p")), Drafts(tmp_path, Path("/p"))
    assert (first.adopt(), second.adopt()) == ("newer", "older")


def test_an_older_text_never_replaces_a_newer(tmp_path: Path) -> None:
    drafts = Drafts(tmp_path, Path("/p"))
    drafts.save("new", 2)
    drafts.save("old", 1)
    (path,) = tmp_path.glob("*.json")
    assert path.read_text() == '"new"'


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe", b'"' + b"x" * 100, b"[" * 100_000], ids=range(6))
def test_T107_a_damaged_file_costs_nothing_but_itself(tmp_path: Path, content: bytes) -> None:
    left_behind(tmp_path, "/p", "text")
    (path,) = tmp_path.glob("*.json")
    path.write_bytes(content)
    assert Drafts(tmp_path, Path("/p")).adopt() == "" and files(tmp_path) == []


def test_T103_links_and_folders_in_the_way_are_left_alone(tmp_path: Path) -> None:
    left_behind(tmp_path / "d", "/p", "text")
    (path,) = (tmp_path / "d").glob("*.json")
    (tmp_path / "victim").write_text('"victim"')
    path.unlink()
    path.symlink_to(tmp_path / "victim")
    assert Drafts(tmp_path / "d", Path("/p")).adopt() == ""
    assert (tmp_path / "victim").read_text() == '"victim"'
    (tmp_path / "file").write_text("")
    Drafts(tmp_path / "file", Path("/p")).save("text", 1)
    Drafts(None, Path("/p")).save("text", 1)
    assert Drafts(None, Path("/p")).adopt() == ""


def test_what_json_cannot_hold_is_kept_anyway(tmp_path: Path) -> None:
    left_behind(tmp_path, "/p", "a\ud800b".encode("utf-8", "surrogatepass").decode("utf-8", "surrogateescape"))
    assert Drafts(tmp_path, Path("/p")).adopt().startswith("a")
