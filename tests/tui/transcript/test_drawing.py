import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.strip import Strip

from agent.tools.details import CommandDetails, DiffDetails
from tests.fakes.hostile import HOSTILE
from tests.tui.transcript.drawing import reply, rows, text_of
from tui.sanitize import clean
from tui.widgets.blocks import Block, Compaction, Notice, UserText, reply_block
from tui.widgets.cards import Card
from tui.widgets.splitter import Splitter
from tui.widgets.thinking import Thinking

ODD = "ab [/x]\t漢👩🏽\u200d💻é\u0301שלוםمی\u200c#*_`|>-=~<&\\!\n\r\x1b\u202e\u00a01.\u3000⚠\ufe0f"
PATTERNS = [
    "| a | b |\n|---|--:|\n",
    "```\n",
    "- ",
    "1. ",
    "> ",
    "# ",
    "[x](https://y.z/w)",
    "**",
    "![i](d)",
    "\n\n",
    "漢字" * 20,
    "x" * 90,
]
texts = st.lists(st.one_of(st.text(st.sampled_from(ODD), max_size=20), st.sampled_from(PATTERNS)), max_size=12).map(
    "".join
)


def blocks_of(text: str) -> list[Block]:
    """The text in every kind of block that is not a reply."""
    running, done = Card("1", text, text), Card("2", "bash", text)
    running.progress(text)
    done.finish(True, CommandDetails(text, text, 1, 5, note=text), text)
    edited = Card("3", "edit", text)
    edited.finish(False, DiffDetails(text, "-a\n+" + text, 1, 1), text)
    thought = Thinking(clean(text).strip())
    blocks: list[Block] = [Notice("error", clean(text)), running]
    for block in (UserText(clean(text)), Compaction(clean(text)), done, edited, thought):
        blocks += [block, *(block.body() if block.can_open else ())]
    return blocks


@given(texts, st.integers(8, 130))
@settings(deadline=None, max_examples=80)
def test_T61_each_row_is_exactly_as_wide_as_the_page(text: str, width: int) -> None:
    for strip in [*reply(text, width), *rows(blocks_of(text), width)]:
        assert strip.cell_length == width
        assert sum(cell_len(segment.text) for segment in strip) == width


@pytest.mark.parametrize("sequence", HOSTILE)
def test_T59_no_sequence_reaches_a_row_in_any_kind_of_block(sequence: str) -> None:
    text = f"before {sequence} after"
    markdown = (
        f"{text}\n\n`{sequence}`\n\n```\n{text}\n```\n[{sequence}](https://x.y/{sequence})\n\n| {text} |\n|---|\n"
    )
    for strip in [*reply(markdown), *rows(blocks_of(text))]:
        assert drawable(strip)


def test_T59_entities_cannot_write_what_plain_text_cannot() -> None:
    shown = reply("&#x1b;[2J &#x202e; &ZeroWidthSpace; &#xE0041; `&#x9b;` [a](https://x.y/&#x202e;) &rlm;")
    assert all(map(drawable, shown))
    assert "⟨U+202E⟩" in text_of(shown)


def drawable(strip: Strip) -> bool:
    linked = "".join(segment.style.link or "" for segment in strip if segment.style)
    return clean(strip.text + linked).replace("\n", "") == strip.text + linked


def test_T60_markup_is_literal_everywhere() -> None:
    text = "[red]x[/red] [/closing] [@click=app.quit]y[/] [link=http://z]w[/link]"
    assert text in text_of(reply(text, 120))
    assert text_of(rows(blocks_of(text), 120)).count("[@click=app.quit]") >= 6


@pytest.mark.parametrize(
    ("markdown", "shown", "links"),
    [
        ("[docs](https://x.y/real)", "docs (https://x.y/real)", {"https://x.y/real"}),
        (
            "[https://good.example](https://evil.example/)",
            "https://good.example (https://evil.example/)",
            {"https://evil.example/"},
        ),
        ("<https://x.y/z>", "https://x.y/z", {"https://x.y/z"}),
        ("see https://x.y/z.", "see https://x.y/z.", {"https://x.y/z"}),
        ("[https://x.y](http://x.y)", "https://x.y (http://x.y)", {"http://x.y"}),
        ("[https://x.y/](https://x.y)", "https://x.y/", {"https://x.y"}),
        ("http://\u0430.com/x", "http://\u0430.com/x (http://%D0%B0.com/x)", {"http://%D0%B0.com/x"}),
        ("https://x.y/Köln", "https://x.y/Köln", {"https://x.y/K%C3%B6ln"}),
        ("[x](javascript:alert(1))", "[x](javascript:alert(1))", set()),
        ("[x](data:text/html,x)", "[x](data:text/html,x)", set()),
        ("[x](file:///etc/passwd)", "[x](file:///etc/passwd)", set()),
        ("[x](docs/a.md)", "x (docs/a.md)", set()),
        ("![pixel](https://evil.example/?q=secret)", "[image: pixel] (https://evil.example/?q=secret)", set()),
    ],
)
def test_T62_links_show_where_they_lead(markdown: str, shown: str, links: set[str]) -> None:
    drawn = reply(markdown, 100)
    assert text_of(drawn).strip() == shown
    assert {segment.style.link for strip in drawn for segment in strip if segment.style and segment.style.link} == links


def test_a_link_defined_at_the_end_of_a_reply_is_resolved_in_it() -> None:
    assert "docs (https://x.y/d)" in text_of(reply("See [docs].\n\ntext\n\n[docs]: https://x.y/d\n"))


def test_markdown_as_it_is_set() -> None:
    shown = reply(
        "# Title\nSome *words* and\nmore.\n- one\n- two\n  - nested\n\n3. three\n\n> quoted\n\n"
        "| n | value |\n|---|--:|\n| a | 10 |\n\n---\n```py\nx = [1]\n```\n",
        60,
    )
    assert text_of(shown).replace("\n   ", "\n").split("\n") == [
        "   Title",
        "Some words and more.",
        "• one",
        "• two",
        "  • nested",
        "3. three",
        "│ quoted",
        "n │ value",
        "──┼──────",
        "a │    10",
        "─" * 56,
        " x = [1]",
    ]


SHAPES = {
    "one line of code": "```\n" + "x" * 200_000,
    "one line of text": "y" * 200_000,
    "one line of wide characters": "漢" * 100_000,
    "one line of words": "word " * 40_000,
    "combining": ("a" + "\u0301" * 200) * 500,
    "table": "| a | b | c |\n|---|---|---|\n" + "| 1 | 22 | 333 |\n" * 5000,
    "list": "- item **bold** `code`\n" * 5000,
    "quotes": "> " * 2000 + "deep\n" * 2000,
    "links": "[a](https://x.y/z) " * 10_000,
    "open brackets": "[" * 50_000,
    "open emphasis": "*a **b " * 20_000,
    "backticks": "`a ``b " * 20_000,
    "angles": "<a <!-- <![CDATA[ <? " * 5000,
    "hidden characters": "\u200b\u202e" * 20_000,
    "fence in a language with a slow lexer": "```javascript\n" + "/(" * 2000 + "\n" * 200,
}


@pytest.mark.parametrize("shape", SHAPES)
def test_T61_a_screen_of_the_largest_shapes_is_drawn_quickly(shape: str) -> None:
    reply("`warm` **up**\n```javascript\nx\n```\n")
    splitter = Splitter()
    pieces = splitter.feed(clean(SHAPES[shape])) + splitter.finish()
    slowest = 0.0
    for piece in [*pieces[:3], *pieces[-3:]]:
        start = time.process_time()
        rows([reply_block(piece, splitter.references)], 120)
        slowest = max(slowest, time.process_time() - start)
    assert slowest < 0.1
