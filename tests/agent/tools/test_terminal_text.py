import random
import time

import pytest

from agent.tools.terminal_text import is_binary, plain_text, show_output

ESC = "\x1b"


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        (f"{ESC}[31mred{ESC}[0m", "red"),
        (f"{ESC}[38;2;1;2;3mx{ESC}[m", "x"),
        (f"{ESC}[2J{ESC}[1;1Hx{ESC}[?1049h{ESC}[?2004h", "x"),
        (f"{ESC}]0;title\x07x", "x"),
        (f"{ESC}]52;c;ZXZpbA=={ESC}\\x", "x"),
        (f"{ESC}]8;;http://e{ESC}\\link{ESC}]8;;{ESC}\\", "link"),
        (f"{ESC}]0;never ended\nnext", "\nnext"),
        (f"{ESC}Pq#0;2;0;0;0{ESC}\\x", "x"),
        (f"{ESC}_apc{ESC}\\{ESC}^pm{ESC}\\{ESC}Xsos{ESC}\\x", "x"),
        (f"{ESC}(B{ESC}=x{ESC}7{ESC}cy", "xy"),
        ("\x9b31mx\x9d0;t\x07y", "xy"),
        ("a\x07\x00b\x0b\x0c\x7fc", "a␀bc"),
        ("end" + ESC, "end"),
        (f"cut {ESC}[3", "cut "),
        ("a\r\nb\r\n", "a\nb\n"),
        ("10%\r50%\r100%\n", "100%\n"),
        ("100%\r50", "500%"),
        (f"long line\r{ESC}[Kshort", "short"),
        (f"long line{ESC}[2K\rx", "x"),
        ("last\r", "last"),
        ("h\bhe\bel\bl", "hel"),
        ("|\b/\b-\b\\\b", "\\"),
        ("é€\U0001f600", "é€\U0001f600"),
        ("[b]not markup[/b]", "[b]not markup[/b]"),
    ],
)
def test_B23_T74_what_a_terminal_would_end_up_with(raw: str, text: str) -> None:
    assert plain_text(raw.encode()) == text


def test_T74_bytes_that_are_no_utf8_are_replaced() -> None:
    assert plain_text(b"\xffa\xe2\x82b") == "\ufffda\ufffdb"


def test_nothing_that_acts_is_left_of_random_bytes() -> None:
    generator = random.Random(3)
    for _ in range(300):
        raw = bytes(generator.choices(b"\x1b[]P\\;?0123mKH\x07\x08\r\n\tab\x9b\xc2\x00\xff", k=200))
        text = plain_text(raw)
        assert not any((char < " " and char not in "\n\t") or "\x7f" <= char < "\xa0" for char in text)


@pytest.mark.parametrize("piece", [b"\x1b]", b"\x1b[", b"x\r", b"\b", b"\x1b[K", b"\x1bP", b"a\x1b]0;"])
def test_hostile_repetition_is_linear(piece: bytes) -> None:
    started = time.process_time()
    plain_text((piece * 131_072)[:131_072])
    assert time.process_time() - started < 2


@pytest.mark.parametrize(
    ("data", "binary"),
    [
        (bytes(range(256)) * 20, True),
        (b"\x7fELF" + b"\0" * 500, True),
        (random.Random(1).randbytes(5_000), True),
        ("текст 文字 ".encode() * 50, False),
        (b"a/b\0c/d\0longer/file/name.py\0" * 20, False),
        (b"\x1b[31mred\x1b[0m" * 50, False),
        (b"\0", False),
        (b"", False),
    ],
)
def test_T74_binary_output_is_told_from_text(data: bytes, binary: bool) -> None:
    assert is_binary(data) is binary
    assert show_output(data, b"", len(data)).binary is binary


def test_head_and_tail_are_cut_at_lines() -> None:
    shown = show_output(b"one\ntwo\nthr", b"e\nlast\n", 1_000)
    assert shown.text == "one\ntwo\n[… 987 bytes left out …]\nlast"
    assert shown.omitted_bytes == 987


def test_a_whole_output_is_joined_in_the_middle_of_a_character() -> None:
    raw = "a€b\n".encode()
    assert show_output(raw[:2], raw[2:], len(raw)).text == "a€b"
