import json
import subprocess
import sys
import time
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.hostile import HOSTILE
from tui.sanitize import Sanitizer, clean, clean_output, one_line, parse_sgr, plain_output, safe_url, spelled_json

FORMAT_SIGNS = set(map(chr, [*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD]))
"""Characters of category Cf that are drawn as glyphs."""

pieces = st.text(
    st.sampled_from("a1# \n\r\t\x1b[m;\x07\x9b\u200d\u200c\ufe0f\u202e👩🏽💻☺漢می\ud83d\ude00\U000e0041\u0301"),
    max_size=30,
)


def test_T59_no_control_format_or_separator_character_of_unicode_survives() -> None:
    kept = {
        char
        for char in map(chr, range(0x110000))
        if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp") and char in clean(f"a{char}b")
    }
    assert kept == {"\n", "\t"} | FORMAT_SIGNS


@pytest.mark.parametrize("sequence", HOSTILE)
def test_T59_each_sequence_becomes_visible_text(sequence: str) -> None:
    shown = clean(f"before{sequence}after")
    assert shown.startswith("before")
    assert shown.endswith("after")
    assert not any(unicodedata.category(c) in ("Cc", "Cf", "Cs") for c in shown)
    assert len(shown) > len("beforeafter")
    assert "\x1b" not in plain_output(sequence)


@given(st.lists(pieces, max_size=6))
@settings(deadline=None)
def test_pieces_add_up_to_the_whole_however_they_are_cut(parts: list[str]) -> None:
    sanitizer = Sanitizer()
    assert "".join([*map(sanitizer.feed, parts), sanitizer.finish()]) == clean("".join(parts))


@pytest.mark.parametrize(
    "text", ["👩🏽\u200d💻", "⚠\ufe0f", "1\ufe0f⃣", "می\u200cخواهم", "葛\U000e0100", "é", "漢字", "\ttab\n", "\ue0b0"]
)
def test_T61_legitimate_sequences_stay_as_they_are(text: str) -> None:
    assert clean(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\u200bb", "a⟨U+200B⟩b"),
        ("a\u200db", "a⟨U+200D⟩b"),
        ("\u202eabc", "⟨U+202E⟩abc"),
        ("x\U000e0068\U000e0069", "x⟨tag h⟩⟨tag i⟩"),
        ("a\ufe0f", "a⟨U+FE0F⟩"),
        ("\ud83d!", "⟨U+D83D⟩!"),
        ("a\ud83d\ude00b", "a😀b"),
        ("a\r\nb\rc", "a\nb␍c"),
        ("\x1b[31m\x9b2J\x7f", "␛[31m⟨U+9B⟩2J␡"),
        ("\0\x1f ", "␀␟ "),
    ],
)
def test_hidden_characters_are_named(text: str, shown: str) -> None:
    assert clean(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "a\ud83d\ude00b",
        "1\ufe0f⃣",
        "#\ufe0f⃣ 9",
        "plain",
        "\x1b[31m",
        "a\x07",
        "\r\n",
        "👩🏽\u200d💻!",
        "a\u200db",
        "می\u200cخ",
    ],
)
def test_each_character_may_arrive_by_itself(text: str) -> None:
    sanitizer = Sanitizer()
    assert "".join([*map(sanitizer.feed, text), sanitizer.finish()]) == clean(text)
    assert sanitizer.finish() == ""


def test_what_is_certain_is_drawn_at_once() -> None:
    sanitizer = Sanitizer()
    assert [*map(sanitizer.feed, ("plain", "漢\r", "\nx", "1", "2 ")), sanitizer.finish()] == [
        "plain",
        "漢",
        "\nx",
        "",
        "12 ",
        "",
    ]


def test_output_keeps_colours_and_the_last_state_of_a_progress_line() -> None:
    output = "10%\r50%\r\x1b[Kdone\r\n\x1b[1;31mred\x1b[0m \x1b]0;title\x07\n"
    assert plain_output(output) == "done\nred ␛]0;title␇\n"
    pieces = list(parse_sgr(clean_output(output)))
    assert [(text, look.color, look.bold) for text, look in pieces] == [
        ("done\n", None, False),
        ("red", 1, True),
        (" ␛]0;title␇\n", None, False),
    ]


@pytest.mark.parametrize(
    ("codes", "color"),
    [
        ("38;5;9", 9),
        ("38;5;15", 15),
        ("38;5;16", "#000000"),
        ("38;5;196", "#ff0000"),
        ("38;5;231", "#ffffff"),
        ("38;5;232", "#080808"),
        ("38;5;255", "#eeeeee"),
        ("38;5;999", "#eeeeee"),
        ("38:2:1:2:3", "#010203"),
        ("38;2;1;2", None),
        ("38;7;1;2;3", None),
        ("38;5", None),
        ("38", None),
        ("30", 0),
        ("37", 7),
        ("90", 8),
        ("91", 9),
        ("97", 15),
        ("31;48;5;9", 1),
        ("31;39", None),
    ],
)
def test_colours_of_sgr(codes: str, color: int | str | None) -> None:
    assert [(t, look.color) for t, look in parse_sgr(f"\x1b[{codes}mx")] == [("x", color)]


@pytest.mark.parametrize(
    ("codes", "asked_for"),
    [
        ("1;2;3;4;9", {"bold", "dim", "italic", "underline", "strike"}),
        ("1;2;3;22", {"italic"}),
        ("3;4;9;23;24;29", set()),
        ("1;0;4", {"underline"}),
        ("1;", set()),
        ("48;5;1;4", {"underline"}),
        ("58;5;1;4", {"underline"}),
        ("5;7;8;10;11;20;41;49;101", set()),
    ],
)
def test_looks_of_sgr(codes: str, asked_for: set[str]) -> None:
    [(_, look)] = parse_sgr(f"\x1b[{codes}mx")
    assert {name for name in look._fields if getattr(look, name)} == asked_for


def test_concealed_text_and_background_colours_are_not_honoured() -> None:
    [(text, look)] = parse_sgr("\x1b[8;30;40mhidden")
    assert (text, look.color) == ("hidden", 0)


def test_one_line_has_no_line_break_and_fits_its_width() -> None:
    assert one_line("a\n\tb  c", 20) == "a b c"
    assert one_line("漢字漢字", 5) == "漢字…"
    assert one_line("x" * 1_000_000, 10) == "x" * 9 + "…"
    assert [one_line("abc", width) for width in (0, 1, 2, 3)] == ["", "…", "a…", "abc"]


@pytest.mark.parametrize(
    "target",
    [
        "javascript:alert(1)",
        "file:///etc/passwd",
        "data:text/html,x",
        "http://",
        "http://[::1",
        "//x.y",
        "mailto:a@b.c",
        "",
    ],
)
def test_T62_only_web_addresses_become_links(target: str) -> None:
    assert safe_url(target) is None


def test_T62_an_address_holds_printable_ascii_alone() -> None:
    assert safe_url("https://x.y/a b\x1b]8;;z\x07\u202e") == "https://x.y/a%20b%1B]8;;z%07%E2%80%AE"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\u200b\ufe0f\u200b\ufe0f", "⟨U+200B⟩⟨U+FE0F⟩⟨U+200B⟩⟨U+FE0F⟩"),
        ("a\ufe0f\u200d💻", "a⟨U+FE0F⟩⟨U+200D⟩💻"),
        ("❤\ufe0f\u200d🔥", "❤\ufe0f\u200d🔥"),
        ("\ue000 \u200d ❤\ufe0f", "\ue000 ⟨U+200D⟩ ❤\ufe0f"),
        ("葛\U000e0100\U000e0100", "葛\U000e0100⟨U+E0100⟩"),
    ],
)
def test_T59_a_joiner_or_selector_stays_only_where_it_can_do_what_it_is_for(text: str, shown: str) -> None:
    assert clean(text) == shown


@given(pieces)
@settings(deadline=None)
def test_T59_what_is_clean_stays_as_it_is(text: str) -> None:
    assert clean(clean(text)) == clean(text)


@pytest.mark.parametrize(
    "seed", ["\u200d", "a\u200d", "\u202e", "❤\ufe0f", "葛\U000e0100", "a\U000e0100", "\x9b", "\ud800"]
)
def test_B26_T61_two_million_hidden_characters_take_no_longer_than_they_must(seed: str) -> None:
    text = seed * (2_000_000 // len(seed))
    begun = time.process_time()
    clean(text)
    assert time.process_time() - begun < 1  # a call of Python for each took ten times as long


def test_T61_thousands_of_different_hidden_characters_take_no_longer_either() -> None:
    hidden = "".join(map(chr, range(0xE0200, 0xE1000)))
    begun = time.process_time()
    shown = clean(hidden * 100)
    assert time.process_time() - begun < 1  # a pass over the text for each of them takes several times as long
    assert shown.count("⟨U+E") == 100 * len(hidden)


def test_plain_text_needs_no_large_pattern_and_after_a_warm_up_none_is_made() -> None:
    code = """
import re
from tui.sanitize import Sanitizer, clean, spelled_json, warm_up
def refuse(*arguments):
    raise AssertionError(arguments)
make, re.compile = re.compile, refuse
assert clean("a\\x1b") == "a␛" and Sanitizer().feed("plain") == "plain" and spelled_json('"a"') == '"a"'
re.compile = make
warm_up()
re.compile = refuse
assert Sanitizer().feed("é\\u200d\\u200c\\ufe0e\\ufe0f ")
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize(
    "seed", ["x", "x ", "漢", "a\r", "a\r\x1b[K", "\x1b[2K", "\x1b[31m", "\x1b[38;5;", "\x1b[38;5;1;", "\x1b["]
)
def test_T61_a_line_of_output_of_200_kB_takes_linear_time(seed: str) -> None:
    text = "\x1b[0m" + seed * (200_000 // len(seed)) + "m\r\n"
    begun = time.process_time()
    assert all("\x1b" not in piece for piece, _ in parse_sgr(clean_output(text)))
    assert time.process_time() - begun < 3  # minutes where each character looks at the rest of the line


@pytest.mark.parametrize(
    ("output", "shown"),
    [
        ("abc\r\r\nx", "abc\nx"),
        ("10%\r\x1b[K20%\r\x1b[K\n", "20%\n"),
        ("\x1b[31mred\r\x1b[0m\nplain", "\x1b[31mred\x1b[0m\nplain"),
        ("\x1b[31m\r\nred", "\x1b[31m\nred"),
        ("old\r", "old"),
        ("a\x1b[Kb", "ab"),
        ("old\x1b[2Knew", "new"),
        ("old\x1b[2K", "old"),
        ("\r", ""),
        ("hidden\rseen", "seen"),
        ("a\rb\n\nc", "b\n\nc"),
    ],
)
def test_a_line_that_was_overwritten_keeps_its_last_state_and_no_line_is_lost(output: str, shown: str) -> None:
    assert clean_output(output) == shown


@given(st.recursive(pieces, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(pieces, inner, max_size=4)))
@settings(deadline=None)
def test_T59_json_keeps_its_value_and_holds_nothing_that_acts(value: object) -> None:
    text = spelled_json(json.dumps(value, ensure_ascii=False))
    assert json.loads(text) == json.loads(json.dumps(value))
    assert clean(text) == text
