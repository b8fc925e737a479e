"""What is taken away from the screen of a long conversation."""

from tests.tui.transcript.drawing import Screen, page
from tui.widgets.blocks import Block, Notice, UserText
from tui.widgets.cards import Card
from tui.widgets.column import Column
from tui.widgets.items import UserItem
from tui.widgets.trimming import AT_ONCE, MOST_BLOCKS, OLDER, bound, trim
from tui.widgets.viewport import Viewport

KEPT_BLOCKS = MOST_BLOCKS - AT_ONCE


def column_of(*blocks: Block) -> tuple[Column, Viewport]:
    column = Column(page())
    column.replace(blocks)
    return column, Viewport(column)


def test_T110_the_oldest_go_and_a_line_says_so() -> None:
    column, viewport = column_of(*(UserText(f"message {n}") for n in range(MOST_BLOCKS)))
    assert not trim(column, viewport, Notice("info", OLDER))
    column.append(UserText("the newest"))
    before = viewport.window(20)
    assert trim(column, viewport, Notice("info", OLDER))
    assert len(column.blocks) == KEPT_BLOCKS + 1
    assert (column.blocks[0].text, column.blocks[-1].text) == (OLDER, "the newest")
    assert [strip.text for strip in viewport.window(20)] == [strip.text for strip in before]
    for _ in range(2 * (MOST_BLOCKS - KEPT_BLOCKS)):
        column.append(UserText("more"))
        trim(column, viewport, Notice("info", OLDER))
    assert [block.text for block in column.blocks].count(OLDER) == 1


def test_nothing_goes_while_somebody_looks_back() -> None:
    column, viewport = column_of(*(UserText(f"message {n}") for n in range(MOST_BLOCKS + 1)))
    viewport.show(3)
    assert not trim(column, viewport, Notice("info", OLDER))
    viewport.following = True
    assert trim(column, viewport, Notice("info", OLDER))


def test_a_body_goes_with_its_card() -> None:
    card = Card("c", "bash", "x")
    body = [Notice("info", f"{n}") for n in range(MOST_BLOCKS - KEPT_BLOCKS + 20)]
    for block in body:
        block.owner = card
    column, viewport = column_of(card, *body, *(UserText(f"message {n}") for n in range(KEPT_BLOCKS - 10)))
    assert trim(column, viewport, Notice("info", OLDER))
    assert [block.text for block in column.blocks[:2]] == [OLDER, "message 0"]


async def test_what_a_session_was_opened_with_stays_and_only_growth_is_bounded() -> None:
    app = Screen()
    async with app.run_test(size=(80, 24)):
        view = app.view
        view.load([UserItem(f"message {number}", number) for number in range(3 * MOST_BLOCKS)])
        for number in range(AT_ONCE + 1):
            view.begin_user(f"more {number}")
        assert view.column.blocks[0].text == "message 0"
        view.begin_user("one too many")
        assert view.column.blocks[0].text == OLDER and len(view.column.blocks) <= bound(3 * MOST_BLOCKS)
