import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.encodings import (
    Detector,
    NotEncodableError,
    check_encodable,
    decode,
    encode,
    newline_label,
    newline_of,
    split_lines,
)

TEXT = "grün – naïve\r\nzwei\n"


@pytest.mark.parametrize(
    ("data", "label", "text"),
    [
        (b"", "UTF-8", ""),
        (TEXT.encode(), "UTF-8", TEXT),
        (codecs.BOM_UTF8 + TEXT.encode(), "UTF-8 with BOM", TEXT),
        (codecs.BOM_UTF16_LE + TEXT.encode("utf-16-le"), "UTF-16LE", TEXT),
        (codecs.BOM_UTF16_BE + TEXT.encode("utf-16-be"), "UTF-16BE", TEXT),
        (codecs.BOM_UTF32_LE + TEXT.encode("utf-32-le"), "UTF-32LE", TEXT),
        ("grün".encode("latin-1"), "Latin-1", "grün"),
        ("grün – x".encode("cp1252"), "Windows-1252", "grün – x"),
        ("日本".encode("shift-jis"), "Windows-1252", None),
        ("日本。".encode("shift-jis"), "an unknown single-byte encoding, read as Latin-1", None),
        ("grün über".encode() + b"\xff", "UTF-8 with invalid bytes", "grün über\udcff"),
    ],
)
def test_T49_an_encoding_is_recognised_and_kept(data: bytes, label: str, text: str | None) -> None:
    decoded = decode(data)
    assert decoded is not None
    assert decoded[1].label == label
    assert text is None or decoded[0] == text
    assert encode(*decoded) == data


@pytest.mark.parametrize(
    "data",
    [
        b"\0",
        b"\x7fELF\x02\0\0",
        codecs.BOM_UTF16_LE + b"a",
        codecs.BOM_UTF16_LE + b"\0\xd8",
        b"\xff\xfea\0" + b"\xe9" * 5,
    ],
)
def test_binary_is_no_text(data: bytes) -> None:
    assert decode(data) is None


@given(st.binary(max_size=300))
def test_G17_whatever_can_be_decoded_comes_back_byte_for_byte(data: bytes) -> None:
    decoded = decode(data)
    if decoded is not None:
        assert encode(*decoded) == data


PIECES = st.sampled_from(
    ["grün ".encode(), b"plain\n", "日本".encode(), b"\xff", b"\xe9", b"\x81", b"\xc3", b"\x93", b"\0", b"\r\n"]
)


@given(st.lists(PIECES, max_size=12), st.integers(1, 7))
def test_T49_a_file_read_in_pieces_has_the_encoding_that_it_has_as_a_whole(parts: list[bytes], size: int) -> None:
    data = b"".join(parts)
    detector = Detector()
    for place in range(0, len(data), size):
        detector.feed(data[place : place + size])
    detector.feed(b"", last=True)
    whole = decode(data)
    assert detector.result() == (None if whole is None else whole[1])


def test_B28_a_character_that_the_encoding_lacks_is_named_with_its_place() -> None:
    decoded = decode("grün".encode("latin-1"))
    assert decoded is not None
    with pytest.raises(
        NotEncodableError, match=r"'€' \(U\+20AC EURO SIGN\) at line 2, column 3 of the text .* Latin-1"
    ):
        check_encodable("ü\nab€", decoded[1], "the text")


@pytest.mark.parametrize(
    ("text", "newline", "label"),
    [
        ("", "\n", "LF"),
        ("a", "\n", "LF"),
        ("a\nb\r\nc\n", "\n", "mixed line ends"),
        ("a\r\nb\n", "\r\n", "mixed line ends"),
        ("a\r\n", "\r\n", "CRLF"),
        ("a\rb\r", "\r", "CR"),
        ("a\rb\n", "\n", "mixed line ends"),
    ],
)
def test_line_ends_are_told(text: str, newline: str, label: str) -> None:
    assert (newline_of(text), newline_label(text)) == (newline, label)


@given(st.text(alphabet="ab\r\n", max_size=30))
def test_splitting_loses_nothing(text: str) -> None:
    lines, ends = split_lines(text)
    assert "".join(line + end for line, end in zip(lines, [*ends, ""], strict=True)) == text
