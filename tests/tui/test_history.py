import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tui.branch import branch_of
from tui.composing.history import MAX_ENTRIES, MAX_ENTRY_CHARS, MAX_FILE_BYTES, PromptHistory


def stored(path: Path) -> list[str]:
    return PromptHistory(path).read()


def test_up_and_down_walk_the_messages_and_come_back_to_the_draft() -> None:
    history = PromptHistory(None)
    assert history.older("draft") is None and history.newer() is None
    assert history.add("one") and history.add("two") and not history.add("two") and not history.add("  ")
    assert [history.older("draft"), history.older("x"), history.older("x")] == ["two", "one", None]
    assert [history.newer(), history.newer(), history.newer()] == ["two", "draft", None]


def test_what_the_file_holds_comes_before_what_was_sent_since() -> None:
    history = PromptHistory(None)
    history.add("new")
    history.prepend(["old"])
    assert [history.older(""), history.older("")] == ["new", "old"]


def test_messages_survive_in_a_file_that_only_the_user_can_read(tmp_path: Path) -> None:
    path = tmp_path / "state" / "history"
    history = PromptHistory(path)
    texts = ["plain", "two\nlines", "emoji 👩‍💻 漢字", "\x1b[31m", "lone \ud800"]
    for text in texts:
        history.save(text)
    assert stored(path) == texts
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_writers_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "history"

    def write(number: int) -> None:
        history = PromptHistory(path)
        for count in range(20):
            history.save(f"{number}/{count}")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(8)))
    assert sorted(stored(path)) == sorted(f"{n}/{c}" for n in range(8) for c in range(20))


def test_damaged_lines_cost_only_themselves(tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.write_bytes(b'"good"\n\xff\xfe\n{"a": 1}\n[1]\n' + b"[" * 5_000 + b'\n"cut off')
    PromptHistory(path).save("next")
    assert stored(path) == ["good", "next"]


def test_the_file_stays_within_its_bound_and_keeps_the_newest(tmp_path: Path) -> None:
    path = tmp_path / "history"
    line = json.dumps("x" * 10_000).encode() + b"\n"
    path.write_bytes(line * (MAX_FILE_BYTES // len(line) + 1))
    PromptHistory(path).save("newest")
    assert path.stat().st_size <= MAX_FILE_BYTES // 2 + 100
    assert stored(path)[-1] == "newest"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_memory_and_entries_are_bounded(tmp_path: Path) -> None:
    path = tmp_path / "history"
    history = PromptHistory(path)
    for number in range(MAX_ENTRIES + 10):
        history.add(str(number))
    assert history.older("") == str(MAX_ENTRIES + 9)
    history.save("x" * (MAX_ENTRY_CHARS + 1))
    assert not path.exists()


@pytest.mark.parametrize("kind", ["folder", "fifo", "link", "unreadable parent"])
def test_a_file_that_cannot_be_used_costs_the_history_alone(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "history"
    secret = tmp_path / "elsewhere"
    match kind:
        case "folder":
            path.mkdir()
        case "fifo":
            os.mkfifo(path)
        case "link":
            secret.write_text("keep")
            path.symlink_to(secret)
        case _:
            (tmp_path / "file").write_text("")
            path = tmp_path / "file" / "history"
    history = PromptHistory(path)
    assert history.read() == []
    history.save("text")
    if kind == "link":
        assert secret.read_text() == "keep"


def test_branch_is_read_without_running_git(tmp_path: Path) -> None:
    repository = tmp_path / "repo"
    (repository / ".git").mkdir(parents=True)
    (repository / "src").mkdir()
    head = repository / ".git" / "HEAD"
    head.write_text("ref: refs/heads/feature/[x]\n")
    assert branch_of(repository / "src") == "feature/[x]"
    head.write_text("0123456789abcdef\n")
    assert branch_of(repository) == "0123456"
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / ".git").write_text("gitdir: ../repo/.git\n")
    assert branch_of(tree) == "0123456"
    head.unlink()
    os.mkfifo(head)
    assert branch_of(repository) == ""
    assert branch_of(tmp_path) == "" or (Path("/") / ".git").exists()
