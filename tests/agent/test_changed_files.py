import hashlib
import os
from pathlib import Path

from agent.changed_files import FileWatch
from agent.prompt import ChangedFile
from agent.transcript import FileFact


def fact(path: Path) -> FileFact:
    return FileFact(str(path), hashlib.sha256(path.read_bytes()).hexdigest(), whole=True)


def test_changed_and_deleted_files_are_found_and_others_are_not(tmp_path: Path) -> None:
    same, edited, gone = (tmp_path / name for name in ("same", "edited", "gone"))
    for path in (same, edited, gone):
        path.write_text("one")
    facts = [fact(path) for path in (same, edited, gone)]
    watch = FileWatch()
    assert watch.changed(facts) == []
    edited.write_text("two")
    os.utime(edited, (5, 5))
    gone.unlink()
    two = hashlib.sha256(b"two").hexdigest()
    assert watch.changed(facts) == [ChangedFile(str(edited), two), ChangedFile(str(gone), None)]
    edited.write_text("one")
    assert watch.changed(facts[:2]) == []


def test_an_unchanged_file_is_not_read_again(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("one")
    facts, watch = [fact(path)], FileWatch()
    watch.changed(facts)
    before = path.stat()
    path.write_text("two")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert watch.changed(facts) == []  # same size and time: taken for the same, which is the price


def test_what_is_no_ordinary_file_any_more_says_nothing_and_never_blocks(tmp_path: Path) -> None:
    path, other = tmp_path / "a", tmp_path / "b"
    path.write_text("one")
    other.write_text("one")
    facts = [fact(path), fact(other)]
    path.unlink()
    os.mkfifo(path)
    other.unlink()
    other.mkdir()
    assert FileWatch().changed(facts) == []
