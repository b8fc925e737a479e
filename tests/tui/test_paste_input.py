"""Pastes in what the terminal sends: taken out whole, wherever the input is cut."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.composing.paste_input import BEGIN, END, Keys, Pasted, PasteSplitter

CONTENTS = [
    "",
    "x",
    "a\r\nb\tc",
    "\x1b[2J\x1b[31m",
    "\x1b[200",
    "\x1b",
    "é😀\udcff",
    "\x00\x03\x04",
    BEGIN,
    "x" * 10_000,
]


def taken(pieces: list[str]) -> list[tuple[str, str]]:
    """What comes of the pieces, neighbouring keys joined."""
    splitter = PasteSplitter()
    parts = [part for piece in pieces for part in splitter.feed(piece, more=True)]
    if splitter.waits:
        parts += splitter.give_up()
    found: list[tuple[str, str]] = []
    for part in parts:
        kind = "paste" if isinstance(part, Pasted) else "keys"
        if found and kind == found[-1][0] == "keys":
            found[-1] = (kind, found[-1][1] + part.text)
        else:
            found.append((kind, part.text))
    return found


@pytest.mark.parametrize("content", CONTENTS)
@given(data=st.data())
def test_a_paste_is_whole_wherever_the_input_is_cut(content: str, data: st.DataObject) -> None:
    text = f"ab\x1b[A{BEGIN}{content}{END}c\x1b[B"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert taken(pieces) == [("keys", "ab\x1b[A"), ("paste", content), ("keys", "c\x1b[B")]


def test_two_pastes_and_keys_between_them() -> None:
    assert taken([f"{BEGIN}a{END}\r{BEGIN}b{END}"]) == [("paste", "a"), ("keys", "\r"), ("paste", "b")]


def test_the_escape_key_is_not_held_back() -> None:
    splitter = PasteSplitter()
    assert list(splitter.feed("\x1b")) == [Keys("\x1b")] and not splitter.waits


def test_a_beginning_that_was_none_is_given_back() -> None:
    splitter = PasteSplitter()
    assert list(splitter.feed("x\x1b[20")) == [Keys("x")] and splitter.waits
    assert list(splitter.feed("3~")) == [Keys("\x1b[203~")]


def test_a_paste_whose_end_is_lost_is_over_after_a_while() -> None:
    splitter = PasteSplitter()
    assert list(splitter.feed(f"{BEGIN}half")) == [] and splitter.in_paste
    assert list(splitter.give_up()) == [Pasted("half")] and not splitter.waits
    assert list(splitter.feed("key")) == [Keys("key")]


def test_ten_megabytes_in_small_pieces_are_quick() -> None:
    splitter = PasteSplitter()
    piece = "0123456789abcde\n" * 256
    begun = time.process_time()
    parts = [part for text in (BEGIN, *[piece] * 2_560, END) for part in splitter.feed(text, more=True)]
    assert time.process_time() - begun < 1 and parts == [Pasted(piece * 2_560)]
