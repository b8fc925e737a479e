"""Secrets in texts that come in pieces, wherever these are cut, and what is given out at once all the same."""

import itertools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.redaction import Redactor
from agent.redaction_stream import MOST_HELD_CHARS, RedactionStream
from tests.fakes.secret_keys import made_keys, made_pem

KEYS = made_keys(2)
ONE_LINE = sorted(KEYS.values())


def stream(*values: str) -> RedactionStream:
    return RedactionStream(Redactor(values))


def through(reader: RedactionStream, text: str, sizes: list[int]) -> str:
    given, place = "", 0
    for size in itertools.cycle(sizes):
        if place >= len(text):
            return given + reader.finish()
        given += reader.feed(text[place : place + size])
        place += size
    raise AssertionError


@given(
    st.sampled_from(ONE_LINE),
    st.lists(st.integers(1, 40), min_size=1, max_size=6),
    st.sampled_from(["\n", " ", "\t", '"\n']),
)
def test_T101_a_key_in_pieces_is_taken_out(key: str, sizes: list[int], behind: str) -> None:
    shown = through(stream(), f"starting\nthe key is {key}{behind}done\n", sizes)
    assert key[len(key) // 2 :] not in shown and key[: len(key) // 2] not in shown
    assert shown.startswith("starting\nthe key is [redacted 1]") and shown.endswith("done\n")


@given(st.text(alphabet="ab .\n\tsk-_=:'\"1\x1b[m", max_size=300), st.lists(st.integers(1, 30), min_size=1, max_size=5))
def test_nothing_is_lost_and_nothing_is_added(text: str, sizes: list[int]) -> None:
    reader = stream()
    assert through(reader, text, sizes) == text or reader.marked


@pytest.mark.parametrize("size", [1, 7, 64, 700])
def test_T101_a_private_key_in_pieces_is_one_secret(size: int) -> None:
    pem = made_pem(3, lines=20)
    shown = through(stream(), f"before\n{pem}\nafter\n", [size])
    assert shown == "before\n[redacted 1]\nafter\n"


@pytest.mark.parametrize("size", [1, 5])
def test_names_before_a_value_count_over_the_pieces(size: int) -> None:
    value = "correct horse battery 9"
    text = f'password: "hunter22" x\nAPI_TOKEN=zz-9-yy-8-xx\nthe {value}!\n'
    shown = through(stream(value), text, [size])
    assert shown == 'password: "[redacted 1]" x\nAPI_TOKEN=[redacted 2]\nthe [redacted 3]!\n'


def test_colours_in_the_middle_of_a_key_in_pieces() -> None:
    key = KEYS["GitHub"]
    reader = stream()
    parts = [f"\x1b[1mkey \x1b[31m{key[:6]}", f"\x1b[m{key[6:20]}\x1b[", f"K{key[20:]}\x1b[0m\n"]
    shown = "".join(map(reader.feed, parts)) + reader.finish()
    assert not any(key[n : n + 8] in shown for n in range(4, len(key) - 8)) and "[redacted 1]" in shown


def test_whole_words_and_rows_of_dots_come_at_once() -> None:
    reader = stream()
    assert reader.feed("Downloading the ") == "Downloading the "
    assert reader.feed("....") == "..." and reader.feed("F..") == ".F."
    assert reader.feed(" 45%\r 46%") == ". 45%\r "
    assert reader.feed("") == "" and reader.holds


def test_a_last_word_that_is_no_beginning_is_given_out_when_nothing_comes() -> None:
    for word in ("8080", "Password:", "[y/N]", "$", "ready"):
        reader = stream()
        assert reader.feed(f"x {word}") + reader.settle() == f"x {word}"
    for word in ("ghp_abc", "sk", "eyJhbGci", "token=abcd", "https://u:pw", "aB3dE6gH9jK2"):
        reader = stream()
        assert reader.feed(f"x {word}") + reader.settle() == "x "


def test_what_is_held_back_is_bounded_and_time_grows_with_the_text() -> None:
    for unit in ("x", "-----BEGIN RSA PRIVATE KEY-----\n", "-----BEGIN ", "eyJ", "A" * 64 + "\n"):
        reader = stream("a value with white space 1")
        began, given = time.process_time(), 0
        for _ in range(300):
            given += len(reader.feed(unit * (2_000 // len(unit))))
            assert len(reader._held) <= 3 * MOST_HELD_CHARS + 20_000
        given += len(reader.finish())
        assert time.process_time() - began < 20.0
