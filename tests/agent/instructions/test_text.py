import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.instructions.text import NotTextError, read_text


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1", "cp1252"]
)
@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
def test_T11_every_usual_encoding_and_line_end_is_read_right(encoding: str, ends: str) -> None:
    text = "Grüße an alle\nRun the tests before you commit."
    assert read_text(text.replace("\n", ends).encode(encoding)).text == text


def test_windows_quotes_are_read_right() -> None:
    assert read_text(b"say \x93hi\x94").text == "say “hi”"


def test_R7_T11_hidden_characters_are_removed_and_counted_by_kind() -> None:
    hidden = "\U000e0041\U000e007f\u202e\u2066\u200b\ufeff\u00ad\x1b\x07\x9b"
    clean = read_text(f"\ufeffRun{hidden} tests\t\n\nnow".encode())
    assert clean.text == "Run tests\t\n\nnow"
    assert clean.hidden == {"tag": 2, "bidi": 2, "zero-width": 3, "control": 3}


def test_ordinary_text_loses_nothing() -> None:
    text = "日本語 — ‘quotes’ ✔︎ ❤️ naïve\n\tcode()"
    assert read_text(text.encode()).text == text
    assert read_text(text.encode()).hidden == {}


def test_binary_is_no_text() -> None:
    with pytest.raises(NotTextError):
        read_text(b"\x7fELF\x00\x00\x01\x02\x00" * 20)


def test_a_character_that_the_end_cuts_is_left_out() -> None:
    assert read_text("aé".encode()[:-1], whole=False).text == "a"


@given(st.binary(max_size=300))
def test_any_bytes_give_visible_text_or_a_clear_refusal(data: bytes) -> None:
    try:
        text = read_text(data).text
    except NotTextError:
        return
    assert not any(char in text for char in "\x00\x1b\r\u202e\u200b\U000e0041")


def test_B15_what_looks_like_an_import_is_text() -> None:
    text = "@scope/pkg, me@host.org, @param x\n@import docs/a.md\n```\n@include b.md\n```\n~~~\n@c.md\n~~~\n    `@d.md`"
    assert read_text(text.encode()).text == text
