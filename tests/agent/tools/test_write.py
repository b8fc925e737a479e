import asyncio
import codecs
import hashlib
import os
import time
from pathlib import Path

import msgspec
import pytest

from agent.tools.details import DiffDetails, TextDetails
from agent.tools.read import Read
from agent.tools.write import Write, WriteParams
from tests.agent.tools.file_calls import Calls


@pytest.fixture
def calls(tmp_path: Path) -> Calls:
    return Calls(tmp_path)


async def test_a_new_file_is_made_with_its_folders(calls: Calls, tmp_path: Path) -> None:
    access = calls.access(Write(), path="src/new/a.py", content="x\ny\n")
    assert (access.kind, access.title, access.paths) == ("edit", "src/new/a.py", (tmp_path / "src/new/a.py",))
    assert access.diff == "@@ -0,0 +1,2 @@\n+x\n+y"
    assert not (tmp_path / "src").exists()
    output = await calls.run(Write(), path="src/new/a.py", content="x\ny\n")
    assert (tmp_path / "src/new/a.py").read_bytes() == b"x\ny\n"
    assert output.text == "Created src/new/a.py (2 lines, 4 bytes)."
    assert output.details == DiffDetails("src/new/a.py", access.diff or "", 2, 0)
    (fact,) = output.files
    assert (fact.sha256, fact.whole, fact.change) == (hashlib.sha256(b"x\ny\n").hexdigest(), True, "written")
    (tmp_path / "plain").touch()
    assert (tmp_path / "src/new/a.py").stat().st_mode == (tmp_path / "plain").stat().st_mode


async def test_an_existing_file_must_have_been_read_whole(calls: Calls, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1\n2\n3\n")
    assert "exists and was not read" in await calls.refused(Write(), path="a", content="x")
    await calls.run(Read(), path="a", limit=2)
    assert "Not all of a was read" in await calls.refused(Write(), path="a", content="x")
    await calls.run(Read(), path="a", offset=3)
    output = await calls.run(Write(), path="a", content="1\n2\nthree\n")
    assert output.text == "Wrote a (+1 -1 lines)."
    await calls.run(Write(), path="a", content="again\n")
    assert (tmp_path / "a").read_text() == "again\n"
    (tmp_path / "empty").touch()
    await calls.run(Write(), path="empty", content="filled")


async def test_T51_what_changed_since_is_not_overwritten(calls: Calls, tmp_path: Path) -> None:
    target = tmp_path / "a"
    target.write_text("1\n")
    await calls.run(Read(), path="a")
    target.write_text("theirs\n")
    assert "was changed since it was read" in await calls.refused(Write(), path="a", content="x")
    assert target.read_text() == "theirs\n"
    target.unlink()
    assert "Created" in (await calls.run(Write(), path="a", content="x")).text
    target.unlink()
    target.mkdir()
    assert "is a folder" in await calls.refused(Write(), path="a", content="y")


async def test_what_was_shown_is_what_is_written(calls: Calls, tmp_path: Path) -> None:
    target = tmp_path / "a"
    target.write_text("1\n")
    await calls.run(Read(), path="a")
    tool, params, context = Write(), WriteParams("a", "2\n"), calls.context()
    tool.access(params, context)
    target.write_text("changed while the dialog was open\n")
    with pytest.raises(Exception, match="changed by someone else"):
        await tool.run(params, context)
    assert target.read_text() == "changed while the dialog was open\n"
    other = WriteParams("b", "other\n")
    await tool.run(other, context)
    assert (tmp_path / "b").read_text() == "other\n"


async def test_R15_a_large_file_is_written_as_it_was_shown_and_holds_nothing_up(calls: Calls, tmp_path: Path) -> None:
    (tmp_path / "large").write_text("old line\n" * 100_000)
    await calls.run(Read(), path="large", limit=1)
    start = time.process_time()
    access = calls.access(Write(), path="large", content="one\ntwo\n")
    assert time.process_time() - start < 0.1
    assert access.diff == "@@ -0,0 +1,2 @@\n+one\n+two"
    assert "Not all of" in await calls.refused(Write(), path="large", content="one\ntwo\n")
    fact = calls.known[str(tmp_path / "large")]
    calls.known[fact.path] = msgspec.structs.replace(fact, whole=True)
    await calls.run(Write(), path="large", content="one\ntwo\n")
    assert (tmp_path / "large").read_text() == "one\ntwo\n"


async def test_the_same_content_changes_nothing(calls: Calls, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\xef\xbb\xbfx\r\n")
    before = (tmp_path / "a").stat()
    await calls.run(Read(), path="a")
    output = await calls.run(Write(), path="a", content="x\n")
    assert "nothing was changed" in output.text
    assert isinstance(output.details, TextDetails)
    assert (tmp_path / "a").stat().st_ino == before.st_ino


@pytest.mark.parametrize(
    ("old", "content", "new"),
    [
        (b"a\r\nb\r\n", "a\nB\nc\n", b"a\r\nB\r\nc\r\n"),
        (b"a\nb\r\nc\n", "a\nb\nnew\nc\n", b"a\nb\r\nnew\r\nc\n"),
        (b"a\rb\r", "a\nc\n", b"a\rc\r"),
        (b"a\n", "a\r\nb\r\n", b"a\nb\n"),
        (b"a", "b", b"b"),
        (codecs.BOM_UTF8 + b"a\n", "\ufeffb\n", codecs.BOM_UTF8 + b"b\n"),
        (codecs.BOM_UTF16_LE + "a\r\n".encode("utf-16-le"), "ü\n", codecs.BOM_UTF16_LE + "ü\r\n".encode("utf-16-le")),
        ("ä\n".encode("latin-1"), "äö\n", "äö\n".encode("latin-1")),
        ("–\n".encode("cp1252"), "€\n", "€\n".encode("cp1252")),
    ],
    ids=["crlf", "mixed", "cr", "lf", "none", "bom", "utf-16", "latin-1", "cp1252"],
)
async def test_B28_encoding_and_line_ends_of_a_file_are_kept(
    calls: Calls, tmp_path: Path, old: bytes, content: str, new: bytes
) -> None:
    (tmp_path / "f").write_bytes(old)
    await calls.run(Read(), path="f")
    await calls.run(Write(), path="f", content=content)
    assert (tmp_path / "f").read_bytes() == new


async def test_B28_a_character_that_does_not_fit_is_named(calls: Calls, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes("ä\n".encode("latin-1"))
    await calls.run(Read(), path="f")
    message = await calls.refused(Write(), path="f", content="ok\nä日\n")
    assert "'日' (U+65E5 CJK UNIFIED IDEOGRAPH-65E5) at line 2, column 2 of the new content" in message
    assert (tmp_path / "f").read_bytes() == "ä\n".encode("latin-1")


async def test_T44_a_link_is_judged_by_its_target_and_stays_a_link(calls: Calls, tmp_path: Path) -> None:
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    outside.mkdir()
    (tmp_path / "x").symlink_to(outside / ".bashrc")
    access = calls.access(Write(), path="x", content="evil")
    assert access.paths == (outside.resolve() / ".bashrc",)
    assert not calls.workspace.contains(access.paths[0])
    (tmp_path / "inner").symlink_to("real")
    (tmp_path / "real").touch()
    await calls.run(Write(), path="inner", content="text")
    assert (tmp_path / "inner").is_symlink()
    assert (tmp_path / "real").read_text() == "text"


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("folder", "is a folder"),
        ("new/", "names a folder"),
        ("n" * 300, "300 bytes"),
        ("a\0b", "NUL"),
        ("fifo", "FIFO"),
        ("/dev/null", "character device"),
        ("binary", "binary file"),
        ("file/x", "not a folder"),
    ],
)
async def test_T47_T48_impossible_targets_are_refused_before_anyone_is_asked(
    calls: Calls, tmp_path: Path, path: str, words: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "binary").write_bytes(b"\0\1")
    os.mkfifo(tmp_path / "fifo")
    assert words in await calls.refused(Write(), path=path, content="x")


async def test_a_write_that_is_too_long_is_refused(calls: Calls, tmp_path: Path) -> None:
    assert "at most" in await calls.refused(Write(), path="a", content="x" * 17_000_000)
    assert not (tmp_path / "a").exists()


async def test_a_cancelled_write_is_whole_or_nothing(calls: Calls, tmp_path: Path) -> None:
    target = tmp_path / "a"
    target.write_text("old")
    await calls.run(Read(), path="a")
    content = "new\n" * 500_000
    for wait in range(4):
        task = asyncio.ensure_future(calls.run(Write(), path="a", content=content))
        for _ in range(wait):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert target.read_text() in ("old", content)
        assert [entry.name for entry in tmp_path.iterdir()] == ["a"]
        target.write_text("old")


async def test_T54_odd_names_can_be_written_and_read(calls: Calls, tmp_path: Path) -> None:
    for name in ("-rf", "new\nline", "\x1b]0;x\x07", "[red]", "ü" * 127, " "):
        path = name if name.strip() else "./ x"
        await calls.run(Write(), path=path, content="x")
        assert (await calls.run(Read(), path=path)).text == "1\tx"
    os.close(os.open(os.fsencode(tmp_path) + b"/caf\xe9", os.O_CREAT | os.O_WRONLY))
    output = await calls.run(Write(), path="caf\\xe9", content="x")
    assert os.listdir(os.fsencode(tmp_path)).count(b"caf\xe9") == 1  # noqa: PTH208 (names as bytes)
    assert Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9")).read_text() == "x"
    output.files[0].path.encode()
    output.text.encode()
