from hypothesis import given, settings
from hypothesis import strategies as st

from tui.widgets.splitter import MAX_CHARS, MAX_LINES, Piece, Splitter, split_plain

LINES = [
    "",
    "   ",
    "plain words",
    "# heading",
    "#hashtag",
    "- item",
    "* other",
    "1. first",
    "  indented",
    "```python",
    "```",
    "~~~",
    "````",
    "`inline` ``` x",
    "| a | b |",
    "|---|---|",
    "> quote",
    "[ref]: https://x.y/z",
    "[x] [ref] [/x]",
    "    code",
    "\tcode",
    "---",
    "long " * 30,
    "x" * 5000,
]


def whole(text: str) -> list[Piece]:
    splitter = Splitter()
    return splitter.feed(text) + splitter.finish()


@given(st.lists(st.sampled_from(LINES), max_size=60).map("\n".join), st.data())
@settings(deadline=None, max_examples=80)
def test_pieces_are_the_same_however_the_text_arrives(text: str, data: st.DataObject) -> None:
    splitter, pieces, at = Splitter(), [], 0
    while at < len(text):
        size = data.draw(st.integers(1, 700))
        pieces += splitter.feed(text[at : at + size])
        splitter.tail()
        at += size
    assert pieces + splitter.finish() == whole(text)


@given(st.lists(st.sampled_from(LINES), max_size=400).map("\n".join))
@settings(deadline=None, max_examples=50)
def test_no_piece_grows_without_bound(text: str) -> None:
    assert all(len(piece.text) <= 6 * MAX_CHARS for piece in whole(text))


@given(
    st.lists(st.sampled_from([line for line in LINES if not line.startswith(("`", "~", "|"))]), max_size=100).map(
        "\n".join
    )
)
@settings(deadline=None, max_examples=50)
def test_no_word_is_lost_between_pieces(text: str) -> None:
    assert "".join(text.split()) == "".join("".join(piece.text for piece in whole(text)).split())


def test_kinds_and_joints_of_pieces() -> None:
    assert whole("# Title\ntext\nmore\n- item\n\n  in it\n\nend\n```py\nx = 1\n\ny\n```\nafter") == [
        Piece("# Title"),
        Piece("text\nmore"),
        Piece("- item\n\n  in it", joins=True),
        Piece("end"),
        Piece("x = 1\n\ny", "py"),
        Piece("after"),
    ]


def test_a_long_fence_is_cut_at_its_line_limit_without_a_seam() -> None:
    pieces = whole("```c\n" + "int x;\n" * (MAX_LINES + 5) + "```\nend")
    assert [(p.language, p.joins, p.text.count("\n") + 1) for p in pieces] == [
        ("c", False, MAX_LINES),
        ("c", True, 5),
        (None, False, 1),
    ]


def test_T61_a_table_of_5000_rows_goes_on_with_its_header() -> None:
    pieces = whole("| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * 5000)
    assert len(pieces) > 10
    assert all(piece.text.startswith("| a | b |\n|---|---|\n| 1 | 2 |") for piece in pieces)
    assert sum(piece.text.count("| 1 | 2 |") for piece in pieces) == 5000


def test_the_tail_shows_no_marks_of_a_fence_that_is_being_written() -> None:
    splitter = Splitter()
    splitter.feed("text\n\n``")
    assert splitter.tail() is None
    splitter.feed("`python")
    assert splitter.tail() == Piece("", "python")
    splitter.feed("\nx = 1\n``")
    assert splitter.tail() == Piece("x = 1", "python")
    assert splitter.feed("`\n") == [Piece("x = 1", "python")]
    assert splitter.tail() is None


def test_link_definitions_are_collected() -> None:
    splitter = Splitter()
    splitter.feed("See [a].\n\n[a]: https://x.y/a\n[b]: <https://x.y/b> 'title'\n")
    assert splitter.references == {"a": "https://x.y/a", "b": "https://x.y/b"}


@given(st.text(st.sampled_from("ab \n"), max_size=3000))
def test_plain_text_is_cut_at_line_ends(text: str) -> None:
    parts = list(split_plain(text))
    assert "\n".join(parts) == text
    assert all(part.count("\n") < MAX_LINES for part in parts)


def test_T61_an_endless_plain_line_is_cut() -> None:
    assert [len(part) for part in split_plain("x" * 10_000)] == [MAX_CHARS, MAX_CHARS, 10_000 - 2 * MAX_CHARS]
