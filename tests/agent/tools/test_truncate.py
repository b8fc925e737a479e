from hypothesis import given
from hypothesis import strategies as st

from agent.tools.truncate import cap_text

LINES = "".join(f"line {number}\n" for number in range(100))


def test_what_fits_stays_whole() -> None:
    capped = cap_text("abc", 3)
    assert capped.is_whole
    assert (capped.text("[…]"), capped.limit, capped.omitted_chars) == ("abc", "none", 0)
    assert cap_text("", 0).is_whole
    assert cap_text(LINES, 10_000, 100).is_whole


def test_head_and_tail_are_kept_and_cut_at_lines() -> None:
    capped = cap_text(LINES, 60)
    assert capped.limit == "chars"
    assert capped.text("[gap]") == "line 0\nline 1\nline 2\nline 3\n[gap]\nline 97\nline 98\nline 99\n"
    assert (capped.omitted_lines, capped.omitted_chars) == (93, len(LINES) - 28 - 24)


def test_a_bound_on_lines_is_told_apart() -> None:
    capped = cap_text(LINES, 10_000, 5)
    assert capped.limit == "lines"
    assert capped.text("…") == "line 0\nline 1\nline 2\n…\nline 98\nline 99\n"
    assert cap_text(LINES, 20, 5).limit == "chars"


def test_a_single_long_line_is_cut_inside() -> None:
    assert cap_text("x" * 100, 10).text("[…]") == "xxxxx\n[…]\nxxxxx"


def test_what_belongs_together_is_not_torn() -> None:
    for text in ("e\u0301" * 50, "👩\u200d💻" * 50, "a\r\n" * 50, "❤\ufe0f" * 50):
        for room in range(8, 40):
            capped = cap_text(text, room)
            assert len(capped.head) + len(capped.tail) <= room
            for part in (capped.head, capped.tail):
                assert not part.endswith(("\u200d", "\r"))
                assert not part.startswith(("\u200d", "\u0301", "\ufe0f", "\n"))


@given(st.text(alphabet="ab\n\u0301", max_size=200), st.integers(0, 60), st.none() | st.integers(0, 10))
def test_the_bounds_hold_and_nothing_is_lost_unsaid(text: str, max_chars: int, max_lines: int | None) -> None:
    capped = cap_text(text, max_chars, max_lines)
    assert len(capped.head) + len(capped.tail) <= max(max_chars, 0)
    if capped.is_whole:
        assert capped.head == text
        return
    assert text.startswith(capped.head)
    assert text.endswith(capped.tail)
    left_out = text[len(capped.head) : len(text) - len(capped.tail)]
    assert (capped.omitted_chars, capped.omitted_lines) == (len(left_out), left_out.count("\n"))
    if max_lines is not None:
        assert len((capped.head + capped.tail).splitlines()) <= max_lines + 1
