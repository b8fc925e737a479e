import codecs
import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agent.tools.base import ToolError
from agent.tools.read import Read
from tests.agent.tools.file_calls import Calls

REPOSITORY = Path(__file__).parents[3]


@pytest.fixture
def calls(tmp_path: Path) -> Calls:
    return Calls(tmp_path)


async def test_lines_are_numbered_and_the_fact_says_what_was_seen(calls: Calls, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes(b"one\ntwo\r\n\nfour")
    output = await calls.run(Read(), path="a.py")
    assert output.text == "1\tone\n2\ttwo\n3\t\n4\tfour"
    (fact,) = output.files
    assert fact.path == str(tmp_path / "a.py")
    assert fact.sha256 == hashlib.sha256(b"one\ntwo\r\n\nfour").hexdigest()
    assert (fact.ranges, fact.whole, fact.change) == (((1, 4),), True, "read")


async def test_a_window_says_how_to_go_on_and_windows_add_up(calls: Calls, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("".join(f"line {n}\n" for n in range(1, 11)))
    output = await calls.run(Read(), path="a", offset=2, limit=3)
    assert output.text == "2\tline 2\n3\tline 3\n4\tline 4\n[lines 2-4 of 10; go on with offset 5]"
    assert (output.files[0].ranges, output.files[0].whole) == (((2, 4),), False)
    output = await calls.run(Read(), path="a", offset=5)
    assert (output.files[0].ranges, output.files[0].whole) == (((2, 10),), False)
    output = await calls.run(Read(), path="a", limit=1)
    assert (output.files[0].ranges, output.files[0].whole) == (((1, 10),), True)
    (tmp_path / "a").write_text("x\ny\n")
    output = await calls.run(Read(), path="a", limit=1)
    assert (output.files[0].ranges, output.files[0].whole) == (((1, 1),), False)


async def test_R29_lines_and_bytes_are_bounded(calls: Calls, tmp_path: Path) -> None:
    (tmp_path / "many").write_text("x\n" * 5_000)
    output = await calls.run(Read(), path="many", limit=100_000)
    assert output.text.endswith("2000\tx\n[lines 1-2,000 of 5,000; go on with offset 2001]")
    (tmp_path / "wide").write_text(("é" * 1_999 + "\n") * 300)
    output = await calls.run(Read(), path="wide")
    assert 250 * 1024 < len(output.text.encode()) <= 257 * 1024
    assert "go on with offset 66]" in output.text
    assert output.files[0].ranges == ((1, 65),)
    (tmp_path / "long").write_text("a" * 2_001 + "\nb\n" + "c" * 2_000 + "\n")
    output = await calls.run(Read(), path="long")
    assert output.text == f"1\t{'a' * 2_000}\n2\tb\n3\t{'c' * 2_000}\n[cut at 2,000 characters: line 1]"
    assert (output.files[0].ranges, output.files[0].whole) == (((2, 3),), False)


async def test_an_empty_file_and_an_offset_behind_the_end(calls: Calls, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    output = await calls.run(Read(), path="empty")
    assert output.text == "[empty is empty]"
    assert output.files[0].whole
    (tmp_path / "a").write_text("x\n")
    assert "a has 1 line; offset 2 is behind its end" in await calls.refused(Read(), path="a", offset=2)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "PNG image, 16 bytes"),
        (b"\x7fELF\x02\x01\0\0", "ELF"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "WebP"),
        (b"abc\0def", "unknown type, 7 bytes"),
        (codecs.BOM_UTF16_LE + b"odd", "damaged UTF-16"),
        (b"x" * 9_000_000 + b"\0", None),
        (b"\0" + b"x" * 9_000_000, "unknown type, 9,000,001 bytes"),
    ],
    ids=["png", "elf", "webp", "nul", "utf-16", "late nul", "large"],
)
async def test_binary_files_are_told_by_type_and_size(
    calls: Calls, tmp_path: Path, data: bytes, words: str | None
) -> None:
    (tmp_path / "f").write_bytes(data)
    if words is None:
        assert "cut at 2,000" in (await calls.run(Read(), path="f")).text
    else:
        assert words in await calls.refused(Read(), path="f")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("grün\n".encode("latin-1"), "1\tgrün\n[encoding: Latin-1]"),
        (codecs.BOM_UTF8 + b"a\n", "1\ta\n[encoding: UTF-8 with BOM]"),
        (codecs.BOM_UTF16_BE + "ü\r\nb".encode("utf-16-be"), "1\tü\n2\tb\n[encoding: UTF-16BE]"),
        ("über grün\n".encode() + b"\xff\n", "1\tüber grün\n2\t\\xff\n[encoding: UTF-8 with invalid bytes]"),
        (b"a\rb\r", "1\ta\n2\tb"),
        (b"a\x00b"[:1] + b"\x1b[31m\xe2\x80\xa8x\n", "1\ta\x1b[31m\u2028x"),
    ],
    ids=["latin-1", "bom", "utf-16", "invalid", "cr", "escape"],
)
async def test_T49_the_encoding_is_told_unless_it_is_UTF_8(
    calls: Calls, tmp_path: Path, data: bytes, text: str
) -> None:
    (tmp_path / "f").write_bytes(data)
    assert (await calls.run(Read(), path="f")).text == text


async def test_T47_what_is_no_file_is_refused_at_once(calls: Calls, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path, words in (("fifo", "FIFO"), ("/dev/zero", "character device"), (".", "glob"), ("nothing", "not exist")):
        start = time.monotonic()
        assert words in await calls.refused(Read(), path=path)
        assert time.monotonic() - start < 5


def test_an_access_names_the_real_path(calls: Calls, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    (tmp_path / "link").symlink_to("/etc/hostname")
    assert calls.access(Read(), path="a", offset=3, limit=2).title == "a (lines 3-4)"
    if Path("/etc/hostname").exists():
        assert calls.access(Read(), path="link").paths == (Path("/etc/hostname").resolve(),)
    with pytest.raises(ToolError, match="not exist"):
        calls.access(Read(), path="b")


async def test_a_large_file_is_scanned(calls: Calls, tmp_path: Path) -> None:
    text = "".join(f"{n} {'é' * 40}\n" for n in range(1, 120_001))
    data = text.encode()
    assert len(data) > 8 * 1024 * 1024
    (tmp_path / "big").write_bytes(data)
    output = await calls.run(Read(), path="big", offset=110_000, limit=2)
    line = "é" * 40
    expected = (
        f"110000\t110000 {line}\n110001\t110001 {line}\n[lines 110,000-110,001 of 120,000; go on with offset 110002]"
    )
    assert output.text == expected
    assert output.files[0].sha256 == hashlib.sha256(data).hexdigest()
    assert output.files[0].ranges == ((110_000, 110_001),)
    (tmp_path / "big").write_bytes(data + b"last, cut: " + "é".encode() * 9_000)
    output = await calls.run(Read(), path="big", offset=120_001)
    assert output.text == f"120001\tlast, cut: {'é' * 1_989}\n[cut at 2,000 characters: line 120001]"
    assert "has 120,001 lines" in await calls.refused(Read(), path="big", offset=200_000)


SCRIPT = """
import asyncio, resource, sys
from pathlib import Path
from agent.tools.base import ToolError
from agent.tools.read import Read
from tests.agent.tools.file_calls import Calls

async def main():
    calls = Calls(Path(sys.argv[1]))
    (Path(sys.argv[1]) / "small").write_text("x")
    await calls.run(Read(), path="small")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for path, offset in (("sparse", 1), ("text", 2), ("line", 1), ("text", 4)):
        try:
            print((await calls.run(Read(), path=path, offset=offset, limit=1)).text[-120:])
        except ToolError as error:
            print(error.text)
    print("grown", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)

asyncio.run(main())
"""


def test_T48_huge_files_are_windowed_in_little_memory(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(10 << 30)
    with (tmp_path / "text").open("wb") as file:
        file.write(b"first\nsecond\n" + b"y" * 10_000 + b"\nlast")
        file.truncate(10 << 30)
    with (tmp_path / "line").open("wb") as file:
        for _ in range(200):
            file.write(b"z" * (1 << 20))
    start = time.monotonic()
    argv = [sys.executable, "-c", SCRIPT, str(tmp_path)]
    done = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, timeout=50, check=True)
    assert time.monotonic() - start < 45
    assert "sparse is a binary file (of an unknown type, 10,737,418,240 bytes)" in done.stdout
    assert "2\tsecond\n[lines 2-2 of a file of 10,737,418,240 bytes; go on with offset 3]" in done.stdout
    assert (
        "z\n[lines 1-1 of a file of 209,715,200 bytes; go on with offset 2; cut at 2,000 characters: line 1]"
        in done.stdout
    )
    assert "[lines 4-4 of a file of 10,737,418,240 bytes" in done.stdout
    grown = int(done.stdout.rsplit("grown ", 1)[1])
    assert grown * (1 if sys.platform == "darwin" else 1024) < 32 << 20
