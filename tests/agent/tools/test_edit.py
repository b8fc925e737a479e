import asyncio
import codecs
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.tools.base import Access, ToolError
from agent.tools.details import DiffDetails
from agent.tools.edit import Edit, EditParams, Replacement
from agent.tools.read import Read
from agent.tools.write import Write
from tests.agent.tools.file_calls import Calls
from tests.examples import examples


@pytest.fixture
def calls(tmp_path: Path) -> Calls:
    return Calls(tmp_path)


def change(old: str, new: str, replace_all: bool = False) -> dict[str, Any]:
    return {"old": old, "new": new, "replace_all": replace_all}


async def test_an_edit_needs_no_read_and_shows_its_diff(calls: Calls, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("one\ntwo\nthree\n")
    access = calls.access(Edit(), path="a.py", edits=[change("two", "2")])
    assert (access.kind, access.paths) == ("edit", (tmp_path / "a.py",))
    assert access.diff == "@@ -1,3 +1,3 @@\n one\n-two\n+2\n three"
    assert (tmp_path / "a.py").read_text() == "one\ntwo\nthree\n"
    output = await calls.run(Edit(), path="a.py", edits=[change("two", "2")])
    assert (tmp_path / "a.py").read_text() == "one\n2\nthree\n"
    assert output.text == "Edited a.py (+1 -1 lines)."
    assert output.details == DiffDetails("a.py", access.diff or "", 1, 1)
    assert (output.files[0].whole, output.files[0].change, output.files[0].ranges) == (False, "edited", ())


async def test_an_edit_of_a_known_file_leaves_it_known(calls: Calls, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\n")
    await calls.run(Read(), path="a")
    await calls.run(Edit(), path="a", edits=[change("one", "two")])
    await calls.run(Write(), path="a", content="three\n")


async def test_all_edits_or_none_in_order(calls: Calls, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\ntwo\n")
    await calls.run(Edit(), path="a", edits=[change("one", "two two"), change("two two", "x"), change("two", "y")])
    assert (tmp_path / "a").read_text() == "x\ny\n"
    message = await calls.refused(Edit(), path="a", edits=[change("x", "z"), change("x\ny", "w")])
    assert message.startswith("a: edit 2 of 2 failed, so nothing was changed.")
    assert "An earlier edit of this call changed that text" in message
    assert (tmp_path / "a").read_text() == "x\ny\n"
    assert "cancel each other out" in await calls.refused(Edit(), path="a", edits=[change("x", "q"), change("q", "x")])


async def test_T53_errors_are_precise(calls: Calls, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x = 1\ny = 2\nx = 1\n")
    cases = {
        ("x = 1", "x = 2", False): "2 times (lines 1, 3)",
        ("x  = 1", "z", False): "not there",
        ("", "z", False): "`old` is empty",
        ("y", "y", False): "are the same",
        ("z" * 5_000_000, "z", False): "not there",
    }
    for (old, new, every), words in cases.items():
        message = await calls.refused(Edit(), path="a", edits=[change(old, new, every)])
        assert words in message
        assert "nothing was changed" in message
    assert (tmp_path / "a").read_text() == "x = 1\ny = 2\nx = 1\n"


async def test_a_tolerant_match_is_told_to_model_and_screen(calls: Calls, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("def f():  \n    return “x”\n")
    output = await calls.run(Edit(), path="a", edits=[change('def f():\n    return "x"', 'def f():\n    return "y"')])
    assert (tmp_path / "a").read_text() == 'def f():  \n    return "y"\n'
    assert isinstance(output.details, DiffDetails)
    for text in (output.text, output.details.note):
        assert "did not match exactly" in text
        assert "1\tdef f():  \n2\t    return “x”" in text


async def test_T51_a_changed_deleted_or_replaced_file_is_refused(calls: Calls, tmp_path: Path) -> None:
    target = tmp_path / "a"
    target.write_text("one\n")
    await calls.run(Read(), path="a")
    target.write_text("one more\n")
    assert "was changed since it was read; read it again" in await calls.refused(
        Edit(), path="a", edits=[change("one", "2")]
    )
    assert target.read_text() == "one more\n"
    await calls.run(Read(), path="a")
    tool, context = Edit(), calls.context()
    params = EditParams("a", (Replacement("one", "two"),))
    tool.access(params, context)
    target.write_text("one, changed while the dialog was open\n")
    with pytest.raises(ToolError, match="changed by someone else"):
        await tool.run(params, context)
    target.unlink()
    assert "was deleted since" in await calls.refused(Edit(), path="a", edits=[change("one", "2")])
    target.mkdir()
    assert "is a folder" in await calls.refused(Edit(), path="a", edits=[change("one", "2")])


async def test_a_missing_file_is_not_made(calls: Calls, tmp_path: Path) -> None:
    assert "does not exist" in await calls.refused(Edit(), path="a", edits=[change("x", "y")])


async def test_of_a_file_outside_nothing_is_told_before_someone_was_asked(calls: Calls, tmp_path: Path) -> None:
    outside = tmp_path.parent / f"{tmp_path.name}-secret"
    outside.write_text("password = 12345\n")
    access = calls.access(Edit(), path=str(outside), edits=[change("passwort = 1", "x")])
    assert (access.diff, access.paths) == (None, (outside.resolve(),))
    assert "password = 12345" in await calls.refused(Edit(), path=str(outside), edits=[change("passwort = 1", "x")])


async def test_why_an_edit_fails_is_told_by_the_run_alone_and_holds(calls: Calls, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("password = 12345\n")
    tool, context = Edit(), calls.context()
    params = EditParams("a", (Replacement("passwort = 1", "x"),))
    assert tool.access(params, context) == Access("edit", "a", (tmp_path / "a",), fails=True)
    (tmp_path / "a").write_text("passwort = 1\n")  # nobody was shown a change of this
    with pytest.raises(ToolError, match="password = 12345"):
        await tool.run(params, context)
    assert (tmp_path / "a").read_text() == "passwort = 1\n"


async def test_R15_a_large_file_is_edited_as_it_was_shown_and_holds_nothing_up(calls: Calls, tmp_path: Path) -> None:
    text = "".join(f"line {number}\n" for number in range(300_000))
    (tmp_path / "large").write_text(text)
    start = time.process_time()
    access = calls.access(Edit(), path="large", edits=[change("line 200000\n", "new\n"), change("é", "e", True)])
    assert time.process_time() - start < 0.1
    assert access.diff == "@@ one place in a large file @@\n-line 200000\n+new\n@@ every place in a large file @@\n" + (
        "-é\n\\ No newline at end of file\n+e\n\\ No newline at end of file"
    )
    output = await calls.run(Edit(), path="large", edits=[change("line 200000\n", "new\n")])
    assert (tmp_path / "large").read_text() == text.replace("line 200000\n", "new\n")
    assert output.text == "Edited large (+1 -1 lines)."
    assert "is not there" in await calls.refused(Edit(), path="large", edits=[change("line 200000\n", "x")])


async def test_T46_the_target_of_a_link_is_edited_and_the_link_stays(calls: Calls, tmp_path: Path) -> None:
    (tmp_path / "real").write_text("one")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "hard").hardlink_to(tmp_path / "real")
    await calls.run(Edit(), path="link", edits=[change("one", "two")])
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "hard").read_text() == "two"


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"a\r\nb\r\nc\r\n", "a\nb", "a\nB\nb2", b"a\r\nB\r\nb2\r\nc\r\n"),
        (b"a\nb\r\nc\rd", "b", "B", b"a\nB\r\nc\rd"),
        (b"a\rb\r", "a\nb", "x\ny", b"x\ry\r"),
        (b"no final", "final", "end", b"no end"),
        (codecs.BOM_UTF8 + b"a\n", "a", "b", codecs.BOM_UTF8 + b"b\n"),
        (codecs.BOM_UTF8 + b"a\n", "a", "\ufeffb", codecs.BOM_UTF8 + b"b\n"),
        (codecs.BOM_UTF8 * 2 + b"a\n", "a", "b", codecs.BOM_UTF8 * 2 + b"b\n"),
        ("ü word\n".encode("latin-1"), "word", "wörd", "ü wörd\n".encode("latin-1")),
        ("日本。 word\n".encode("shift-jis"), "word", "text", "日本。 text\n".encode("shift-jis")),
        ("über äöß\n".encode() + b"\xff\xfe word\n", "word", "é", "über äöß\n".encode() + b"\xff\xfe \xc3\xa9\n"),
    ],
    ids=["crlf", "mixed", "cr", "no final newline", "bom", "bom again", "two boms", "latin-1", "shift-jis", "invalid"],
)
async def test_R30_T49_B27_B28_bytes_outside_the_edit_stay(
    calls: Calls, tmp_path: Path, before: bytes, old: str, new: str, after: bytes
) -> None:
    (tmp_path / "f").write_bytes(before)
    (tmp_path / "f").chmod(0o750)
    await calls.run(Edit(), path="f", edits=[change(old, new)])
    assert (tmp_path / "f").read_bytes() == after
    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == 0o750


async def test_B28_what_cannot_be_encoded_is_refused(calls: Calls, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes("ü word\n".encode("latin-1"))
    message = await calls.refused(Edit(), path="f", edits=[change("ü", "u"), change("word", "→")])
    assert (
        "'→' (U+2192 RIGHTWARDS ARROW) at line 1, column 1 of the new text of edit 2 cannot be written in Latin-1"
        in message
    )
    assert (tmp_path / "f").read_bytes() == "ü word\n".encode("latin-1")


ENCODINGS = st.sampled_from(
    ["utf-8", "utf-8-sig", "utf-16-le", "utf-16-be", "latin-1", "cp1252", "shift-jis", "damaged"]
)
LINE = st.text(alphabet="abc \t“ü日", max_size=6)
ENDS = st.sampled_from(["\n", "\r\n", "\r"])
BOMS = {"utf-16-le": codecs.BOM_UTF16_LE, "utf-16-be": codecs.BOM_UTF16_BE, "utf-8-sig": codecs.BOM_UTF8}


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as running:
        yield running


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    head=st.lists(st.tuples(LINE, ENDS), max_size=4),
    tail=st.lists(st.tuples(LINE, ENDS), max_size=4),
    encoding=ENCODINGS,
    new=st.text(alphabet="xyz\n", min_size=1, max_size=8),
    mode=st.sampled_from([0o644, 0o755, 0o600, 0o664]),
    linked=st.sampled_from(["no", "soft", "hard"]),
    final=st.booleans(),
)
def test_G17_edits_keep_every_other_byte_and_mode_and_link(
    tmp_path: Path,
    runner: asyncio.Runner,
    head: list[tuple[str, str]],
    tail: list[tuple[str, str]],
    encoding: str,
    new: str,
    mode: int,
    linked: str,
    final: bool,
) -> None:
    def to_bytes(text: str) -> bytes:
        if encoding == "damaged":
            return text.encode().replace("ü".encode(), b"\xfc")
        return text.encode(encoding.removesuffix("-sig"), "replace")

    before = BOMS.get(encoding, b"") + to_bytes("".join(line + end for line, end in head))
    after = to_bytes(("\n" if final else "") + "".join(line + end for line, end in tail))
    file, link = tmp_path / "file", tmp_path / "link"
    for path in (link, file):
        path.unlink(missing_ok=True)
    file.write_bytes(before + to_bytes("@@") + after)
    file.chmod(mode)
    if linked == "soft":
        link.symlink_to(file)
    elif linked == "hard":
        link.hardlink_to(file)
    tool, calls = Edit(), Calls(tmp_path)
    params = EditParams("link" if linked == "soft" else "file", (Replacement("@@", new),))
    context = calls.context()
    tool.access(params, context)
    runner.run(calls.finish(tool, params, context))
    data = file.read_bytes()
    assert data.startswith(before)
    assert data.endswith(after)
    middle = data[len(before) : len(data) - len(after)]
    plain = middle.replace(b"\0", b"").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    assert plain == new.encode()
    assert stat.S_IMODE(file.stat().st_mode) == mode
    assert linked != "soft" or link.is_symlink()
    assert linked != "hard" or link.samefile(file)
