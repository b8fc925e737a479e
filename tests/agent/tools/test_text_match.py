import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.tools.line_ends import PlainView, adapt
from agent.tools.text_match import MatchError, apply_edit

CODE = 'def f(a):\n    if a:\n        return "x"\n    return None\n'


def fails(text: str, old: str, new: str, replace_all: bool = False) -> str:
    with pytest.raises(MatchError) as caught:
        apply_edit(text, old, new, replace_all)
    return str(caught.value)


def test_an_exact_match_is_replaced_and_its_line_told() -> None:
    applied = apply_edit(CODE, 'return "x"', 'return "y"', False)
    assert applied.text == CODE.replace('"x"', '"y"')
    assert (applied.count, applied.line, applied.note) == (1, 3, "")


def test_T53_no_match_shows_what_is_most_similar() -> None:
    message = fails(CODE, '    if a is None:\n        return "x"', "z")
    assert "not there" in message
    assert '2\t    if a:\n3\t        return "x"' in message
    assert "Nothing similar" in fails(CODE, "completely unrelated words, nowhere seen", "z")
    assert "empty" in fails("", "a", "b")


def test_T53_more_matches_name_their_lines() -> None:
    assert "2 times (lines 1, 3)" in fails("a\nb\na\n", "a", "c")
    assert "100 times (lines 1, 2, 3, 4, 5, 6, 7, 8, …)" in fails("a\n" * 100, "a", "c")
    assert apply_edit("a\nb\na\n", "a", "cc", True).text == "cc\nb\ncc\n"


def test_T53_empty_and_identical() -> None:
    assert "`old` is empty" in fails(CODE, "", "x")
    assert "are the same" in fails(CODE, "a", "a")
    assert "are the same" in fails("a\r\nb\r\n", "a\r\nb", "a\nb")


def test_T53_overlapping_occurrences() -> None:
    assert "2 times" in fails("aaa", "aa", "b")
    assert "overlap" in fails("aaa", "aa", "b", replace_all=True)
    assert apply_edit("aaaa" * 2, "a", "b", True).text == "b" * 8


@pytest.mark.parametrize(
    ("text", "old", "new", "replace_all"),
    [
        ("a" * 5_000_000, "a", "b", False),
        ("a" * 5_000_000, "a" * 2_500_000 + "b", "c", False),
        ("ab" * 2_500_000, "abab", "c", True),
        ("x\n" * 1_000_000, " x\n" * 500_000 + "y", "z", False),
        ("x = 1\r\n" * 500_000, "x", "y\nz", True),
        ("q" * 5_000_000, "é" * 5_000_000, "z", False),
        ("x", "x", "y" * 17_000_000, False),
    ],
    ids=["many", "long old", "overlapping", "like lines", "mixed with newline", "long and absent", "long new"],
)
def test_T53_5_MB_strings_do_not_hang(text: str, old: str, new: str, replace_all: bool) -> None:
    start = time.process_time()
    try:
        apply_edit(text, old, new, replace_all)
    except MatchError as error:
        assert len(str(error)) < 8_000
    assert time.process_time() - start < 8


@pytest.mark.parametrize(
    ("text", "old", "new", "expected"),
    [
        ("a  \nb\t\nc\n", "a\nb\nc", "A\nb\nC", "A\nb\t\nC\n"),
        ("x = “hi” – y\n", 'x = "hi" - y', "x = 1", "x = 1\n"),
        (
            "    if a:\n        b()\n",
            "if a:\n    b()\n",
            "if a:\n    c()\n    d()\n",
            "    if a:\n        c()\n        d()\n",
        ),
        ("if a:\n    b()\n", "  if a:\n      b()", "  if a:\n      c()", "if a:\n    c()\n"),
        ("\tif a:\n\t\tb()\n", "if a:\n\tb()", "if a:\n\n\tc()", "\tif a:\n\n\t\tc()\n"),
        ("a\nb", "a\nb\n", "a\nc\n", "a\nc"),
        ("a  \r\nb\r\nc", "a\nb", "a\nz", "a  \r\nz\r\nc"),
    ],
)
def test_a_tolerant_match_is_taken_where_it_is_unique_and_shown(text: str, old: str, new: str, expected: str) -> None:
    applied = apply_edit(text, old, new, False)
    assert applied.text == expected
    assert "did not match exactly" in applied.note
    assert f"{applied.line}\t" in applied.note


def test_a_tolerant_match_is_refused_where_it_is_not_unique_or_not_clear() -> None:
    twice = "  a()\n    b()\n    a()\n      b()\n"
    assert "more than once (lines 1, 3)" in fails(twice, "a()\n  b()", "c")
    assert "not there" in fails("  a:\n   b\n", "a:\n  b", "c")  # not shifted alike
    assert "not there" in fails("a:\n  b\n", "  a:\n    b", "c:\n    d")  # new cannot be shifted to the left
    assert "not there" in fails("a  \n", "a\nb", "c", replace_all=True)
    assert "not there" in fails("a\n", " \n ", "c")
    assert "are the same" in fails("a  \nb\n", "a\nb", "a\nb")


def test_B27_line_ends_do_not_count_and_stay() -> None:
    assert apply_edit("a\r\nb\r\nc\r\n", "a\nb", "a\nx\nb", False).text == "a\r\nx\r\nb\r\nc\r\n"
    assert apply_edit("a\rb\rc", "b\nc", "d\ne\nc", False).text == "a\rd\re\rc"
    assert apply_edit("a\nb\r\nc\rd\n", "a\nb\nc\nd", "a\nB\nc\nd", False).text == "a\nB\r\nc\rd\n"
    assert apply_edit("a\nb\nc\r\n", "b\nc", "b\nnew\nc", False).text == "a\nb\nnew\nc\r\n"
    assert apply_edit("a\n", "a", "x\ry\r\nz", False).text == "x\ry\nz\n"


def test_undecodable_bytes_cannot_be_matched_and_are_told() -> None:
    message = fails("über \udcff und\n", "über ? und", "x")
    assert "not valid in its encoding" in message
    message.encode()


PIECES = st.lists(st.sampled_from(["a", "b", "  a", "ü", ""]), min_size=1, max_size=8)
ENDS = st.sampled_from(["\n", "\r\n", "\r"])


@settings(max_examples=300)
@given(PIECES, st.data())
def test_G17_an_edit_changes_nothing_outside_and_reads_as_asked(lines: list[str], data: st.DataObject) -> None:
    ends = [data.draw(ENDS) for _ in lines]
    text = "".join(line + end for line, end in zip(lines, ends, strict=True))
    view = PlainView(text)
    start = data.draw(st.integers(0, len(view.plain)))
    end = data.draw(st.integers(start, len(view.plain)))
    new = data.draw(st.text(alphabet="ab\n", max_size=8))
    replaced = adapt(view, start, end, view.plain[start:end], new)
    assert PlainView(replaced).plain == new
    before, after = view.slice(0, start), view.slice(end, len(view.plain))
    assert before + view.slice(start, end) + after == text
    if new:
        assert PlainView(before + replaced + after).plain == view.plain[:start] + new + view.plain[end:]
    if view.newline is not None and "\n" in view.plain:  # nothing foreign comes in
        assert set(replaced) & set("\r\n") <= set(view.newline)
