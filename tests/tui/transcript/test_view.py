import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from textual.events import MouseScrollDown, MouseScrollUp
from textual.geometry import Region
from textual.pilot import Pilot

from agent.tools.details import CommandDetails, DiffDetails, TextDetails
from tests.fakes.hostile import HOSTILE
from tests.tui.transcript.drawing import RecordingScreen, Screen, screen
from tui.sanitize import clean
from tui.widgets.items import AssistantItem, CompactionItem, Item, NoticeItem, ThinkingItem, ToolItem, UserItem
from tui.widgets.transcript import TranscriptView

Running = Pilot[Any]


@pytest.fixture
async def app() -> AsyncIterator[Screen]:
    app = Screen()
    async with app.run_test(size=(80, 24)):
        yield app


def numbered(count: int) -> list[Item]:
    return [AssistantItem(f"message {number}") for number in range(count)]


# --------------------------------------------------------------------------- the stream


async def test_a_streamed_reply_looks_like_the_finished_one(app: Screen) -> None:
    text = "# Title\n\nSome *text* with 👩🏽\u200d💻.\n\n- a\n- b\n\n```py\nx = 1\n```\n\n| a |\n|---|\n| 1 |\n\nSee [r].\n\n[r]: https://x.y/z\n"
    app.view.add_assistant(text)
    whole = screen(app.view)
    for size in (1, 3, 1000):
        app.view.clear()
        for at in range(0, len(text), size):
            app.view.feed(text[at : at + size])
            app.view.frame()
        app.view.end_message()
        assert screen(app.view) == whole


async def test_thinking_shows_its_last_lines_and_folds_when_something_follows(app: Screen) -> None:
    app.view.feed_thinking("first\n" * 20 + "newest")
    assert "newest" in screen(app.view)
    assert screen(app.view).count("first") == 5
    app.view.feed("answer")
    shown = screen(app.view).split("\n")
    assert shown[0].startswith(" ◇ Thought: first first")
    assert shown[2].strip() == "answer"
    app.view.end_message()
    assert app.view.toggle_last_card()
    assert screen(app.view).count("first") == 20


async def test_a_retry_starts_the_reply_anew_and_keeps_what_was_said_meanwhile(app: Screen) -> None:
    app.view.add_user(1, "question")
    app.view.feed_thinking("thought")
    app.view.feed("finished block\n\nunfinished")
    app.view.add_notice("warning", "next try in 8 s")
    app.view.discard_stream()
    app.view.feed("second attempt")
    shown = screen(app.view)
    assert [line for line in shown.split("\n") if line] == [" ▌ question", " ! next try in 8 s", "   second attempt"]


async def test_an_empty_thinking_leaves_nothing(app: Screen) -> None:
    app.view.feed_thinking("")
    app.view.end_message()
    assert screen(app.view).strip() == ""


async def test_a_message_that_was_shown_before_it_was_recorded_stands_once(app: Screen) -> None:
    app.view.begin_user("hello [b]")
    app.view.add_user(1, "hello [b]")
    app.view.begin_user("steer")
    app.view.add_assistant("late answer")
    app.view.add_user(2, "steer")
    app.view.add_user(3, "from elsewhere")
    lines = [line.strip() for line in screen(app.view).split("\n") if line.strip()]
    assert lines == ["▌ hello [b]", "late answer", "▌ steer", "▌ from elsewhere"]


async def test_a_message_stands_once_also_where_those_that_waited_were_recorded_before_it(app: Screen) -> None:
    app.view.begin_user("go")
    for key, text in enumerate(("waited", "this too", "go"), start=1):
        app.view.add_user(key, text)
    lines = [line.strip() for line in screen(app.view).split("\n") if line.strip()]
    assert lines == ["▌ waited", "▌ this too", "▌ go"]


async def test_a_long_paste_folds(app: Screen) -> None:
    app.view.add_user(1, "\n".join(f"pasted {n}" for n in range(200)))
    assert "▸ 184 more lines" in screen(app.view)
    [block] = app.view.column.blocks
    app.view.toggle(block)  # type: ignore[arg-type] # it is a UserText
    app.view.end()
    assert "pasted 199" in screen(app.view)


# --------------------------------------------------------------------------- tools


async def test_parallel_tools_run_and_finish_each_on_its_card(app: Screen) -> None:
    view = app.view
    view.feed("reading")
    view.start_tool("a", "read", "a.py")
    view.start_tool("b", "bash", "make")
    view.tool_progress("b", "compiling\n")
    assert "◌ read a.py" in screen(view)
    assert "compiling" in screen(view)
    view.finish_tool("b", True, CommandDetails("make", "compiling\nerror: x\n", 2, 100), "exit 2")
    view.finish_tool("a", False, TextDetails("3 lines"), "1\n2\n3")
    lines = [line.strip() for line in screen(view).split("\n") if line.strip()]
    assert lines == ["reading", "● read a.py · 3 lines ▸", "✗ bash make · exit 2 · 0.1 s ▸", "└ error: x"]


async def test_a_small_diff_is_shown_at_once_and_a_long_one_when_asked_for(app: Screen) -> None:
    view = app.view
    view.start_tool("a", "edit", "a.py")
    view.finish_tool("a", False, DiffDetails("a.py", "@@ -1 +1 @@\n-old\n+new\n", 1, 1), "ok")
    assert "1 + new" in screen(view)
    view.start_tool("b", "write", "b.py")
    view.finish_tool("b", False, DiffDetails("b.py", "".join(f"+line {n}\n" for n in range(100)), 100, 0), "ok")
    assert "line 7" not in screen(view)
    view.toggle_last_card()
    assert "line 7" in screen(view)
    view.toggle_last_card()
    assert "line 7" not in screen(view)


async def test_all_cards_unfold_and_fold_and_the_place_stays(app: Screen) -> None:
    view = app.view
    for n in range(50):
        view.start_tool(str(n), "read", f"file {n}")
        view.finish_tool(str(n), False, TextDetails("1 line"), f"content {n}")
    view.home()
    view.scroll_rows(20)
    assert screen(view).split("\n")[0].strip() == "● read file 20 · 1 line ▸"
    view.toggle_all_cards()
    assert [line.strip() for line in screen(view).split("\n")[:3]] == ["● read file 20 · 1 line ▾", "content 20", ""]
    view.start_tool("new", "read", "new")
    view.finish_tool("new", False, TextDetails("1 line"), "content new")
    view.end()
    assert "content new" in screen(view)
    view.toggle_all_cards()
    assert "content" not in screen(view)


async def test_unfolding_pushes_down_what_follows_and_nothing_else(app: Screen) -> None:
    view = app.view
    view.start_tool("a", "read", "a.py")
    view.finish_tool("a", False, TextDetails("90 lines"), "\n".join(f"row {n}" for n in range(90)))
    for n in range(40):
        view.add_notice("info", f"notice {n}")
    view.home()
    view.toggle(view.column.blocks[0])  # type: ignore[arg-type] # it is a Card
    assert screen(view).split("\n")[0].strip() == "● read a.py · 90 lines ▾"
    assert screen(view).split("\n")[1].strip() == "row 0"
    view.end()
    assert screen(view).rstrip().endswith("notice 39")


# --------------------------------------------------------------------------- following and moving


async def test_the_view_follows_the_end_until_it_is_scrolled_up(app: Screen) -> None:
    view = app.view
    view.load(numbered(100))
    assert screen(view).rstrip().endswith("message 99")
    view.scroll_rows(-1)
    before = screen(view)
    assert before.rstrip().endswith("message 98")
    view.feed("a new reply\n\n" * 50)
    view.add_notice("info", "x")
    assert screen(view) == before
    view.end()
    assert view.following
    assert screen(view).rstrip().endswith("x")


async def test_scrolling_down_to_the_end_follows_again(app: Screen) -> None:
    view = app.view
    view.load(numbered(100))
    view.frame()
    view.scroll_rows(-10)
    view.scroll_rows(9)
    assert not view.following
    view.scroll_rows(1)
    assert view.following


async def test_pages_overlap_and_lead_to_both_ends(app: Screen) -> None:
    view = app.view
    view.load(numbered(60))
    view.home()
    assert screen(view).split("\n")[0].strip() == "message 0"
    view.page_up()
    assert screen(view).split("\n")[0].strip() == "message 0"
    seen = {line for line in screen(view).split("\n") if line}
    while not view.following:
        view.page_down()
        seen |= {line for line in screen(view).split("\n") if line}
    assert len(seen) == 60


async def test_a_pinned_line_stays_when_the_blocks_above_it_go(app: Screen) -> None:
    view = app.view
    view.load(numbered(50))
    view.feed("streamed\n\n" * 30)
    view.frame()
    view.add_notice("info", "said meanwhile")
    view.load(numbered(50))
    view.feed("streamed\n\n" * 3)
    for n in range(60):
        view.add_notice("info", f"notice {n}")
    view.frame()
    view.scroll_rows(-30)
    before = screen(view)
    view.discard_stream()
    assert screen(view) == before


async def test_find_goes_from_one_place_to_the_next_and_looks_into_folded_cards(app: Screen) -> None:
    view = app.view
    view.load(numbered(40))
    view.start_tool("a", "read", "a.py")
    view.finish_tool("a", False, TextDetails("1 line"), "the NEEDLE is here")
    view.load([*numbered(40), ToolItem("a", "read", "a.py", False, TextDetails("1 line"), "the NEEDLE"), *numbered(40)])
    view.frame()
    assert view.find("needle")
    assert screen(view).split("\n")[0].strip().startswith("● read a.py")
    assert view.find("message 39")
    assert not view.find("nowhere")
    assert screen(view).split("\n")[0].strip() == "message 39"


# --------------------------------------------------------------------------- frames


async def test_a_frame_refreshes_the_changed_rows_alone() -> None:
    app = RecordingScreen()
    async with app.run_test(size=(80, 24)) as pilot:
        view = app.view
        view.add_user(1, "question")
        view.feed("first line of the answer\n\nsecond")
        view.frame()
        await pilot.pause()
        view.refreshed.clear()
        view.feed(" grows")
        view.frame()
        assert view.refreshed == [Region(0, 4, 80, 1)]
        view.refreshed.clear()
        view.frame()
        assert view.refreshed == []


async def test_nothing_is_drawn_and_no_timer_waits_while_nothing_happens() -> None:
    app = RecordingScreen()
    async with app.run_test(size=(80, 24)) as pilot:
        app.view.feed("text")
        await pilot.pause(0.1)
        app.view.refreshed.clear()
        await pilot.pause(0.1)
        assert app.view.refreshed == []


async def test_what_is_off_the_screen_is_not_rendered(app: Screen) -> None:
    app.view.load([AssistantItem(f"text **{n}**\n\n```py\nx = {n}\n```") for n in range(5000)])
    app.view.frame()
    assert 0 < app.view.column.rendered_count < 30


@pytest.mark.parametrize("theme", ["claw-light", "ansi-dark", "nord"])
async def test_a_theme_change_draws_everything_in_its_colours(theme: str) -> None:
    app = Screen(lambda view: view.add_assistant("text"))
    async with app.run_test(size=(40, 5)) as pilot:
        before = backgrounds(app.view)
        app.theme = theme
        await pilot.pause()
        assert backgrounds(app.view).isdisjoint(before)
        assert backgrounds(app.view) == {app.view.column.page.palette.text.bgcolor}


def backgrounds(view: TranscriptView) -> set[Any]:
    return {s.style.bgcolor for row in view.render_lines(view.size.region) for s in row if s.style}


async def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app = Screen(lambda view: view.add_notice("error", "wrong"))
    async with app.run_test(size=(40, 5)):
        app.view.frame()
        for row in app.view.render_lines(Region(0, 0, 39, 5)):
            for segment in row:
                assert segment.style is not None
                assert segment.style.color is None or len(set(segment.style.color.get_truecolor())) == 1


# --------------------------------------------------------------------------- sizes


async def test_T66_a_storm_of_sizes_down_to_one_cell_and_back() -> None:
    app = Screen()
    async with app.run_test(size=(80, 24)) as pilot:
        app.view.load([*everything(), *numbered(50)])
        app.view.feed("streaming\n\n- text")
        await pilot.pause()
        before, size_before = screen(app.view), app.view.size
        start = time.process_time()
        sizes = [(1, 1), (20, 5), (400, 120), (2, 40), (7, 1), (8, 3), (200, 2), (41, 24), (39, 24)] * 2
        for size in [*sizes, (80, 24)]:
            await pilot.resize_terminal(*size)
            for row in app.view.render_lines(app.view.size.region):
                assert row.cell_length == app.view.size.width
            app.view.scroll_rows(-3)
        for _ in range(1_000):  # a size may arrive after the pause that follows it
            if app.view.size == size_before:
                break
            await pilot.pause()
        app.view.end()
        assert screen(app.view) == before
        assert time.process_time() - start < 10


async def test_a_pinned_place_survives_another_width() -> None:
    app = Screen()
    async with app.run_test(size=(80, 24)) as pilot:
        app.view.load(numbered(200))
        app.view.frame()
        app.view.scroll_rows(-200)
        first = screen(app.view).split("\n")[0]
        await pilot.resize_terminal(50, 30)
        assert screen(app.view).split("\n")[0] == first


# --------------------------------------------------------------------------- foreign text


def everything(text: str = "text") -> list[Item]:
    """One of each kind, with the text in all its fields."""
    return [
        UserItem(text, 1),
        ThinkingItem(text),
        AssistantItem(f"{text}\n\n```{text}\n{text}\n```"),
        ToolItem("1", text, text, True, None, text),
        ToolItem("2", "bash", text, False, CommandDetails(text, text, 1, 5, note=text), text),
        ToolItem("3", "edit", text, False, DiffDetails(text, f"-{text}\n+{text}", 1, 1, text), text),
        ToolItem("4", "grep", text, False, TextDetails(text, text), text),
        NoticeItem("error", text),
        CompactionItem(f"{text}\n{text}"),
    ]


@pytest.mark.parametrize("split", [False, True], ids=["whole", "split"])
async def test_T59_no_hostile_sequence_reaches_the_rows_of_any_sink(split: bool) -> None:
    app = Screen()
    async with app.run_test(size=(120, 60)):
        view = app.view
        for sequence in HOSTILE:
            text = f"x{sequence}y"
            view.load(everything(text))
            view.toggle_all_cards()
            view.start_tool("live", "bash", text)
            for piece in text if split else [text]:
                view.tool_progress("live", piece)
            view.frame()
            stream(view, text, split)
            shown = view.render_lines(view.size.region)
            assert all(clean(row.text) == row.text and "\n" not in row.text for row in shown), repr(sequence)
            view.toggle_all_cards()


def stream(view: TranscriptView, text: str, split: bool) -> None:
    for feed in (view.feed_thinking, view.feed):
        for piece in text if split else [text]:
            feed(piece)
            view.frame()


async def test_T60_markup_runs_no_action_and_raises_nothing(app: Screen) -> None:
    app.view.load(everything("[@click=app.exit]README[/] x [/closing] y [red"))
    shown = screen(app.view)
    assert "[@click=app.exit]README[/] x [/closing] y [red" in shown
    assert all(not s.style.meta for row in app.view.render_lines(app.view.size.region) for s in row if s.style)


# --------------------------------------------------------------------------- the mouse


async def test_a_click_on_a_card_unfolds_it_and_another_folds_it() -> None:
    app = Screen()
    async with app.run_test(size=(80, 24)) as pilot:
        app.view.load([ToolItem("1", "read", "a.py", False, TextDetails("1 line"), "the content")])
        app.view.frame()
        await pilot.click(offset=(5, 0))
        assert "the content" in screen(app.view)
        await pilot.click(offset=(5, 0))
        assert "the content" not in screen(app.view)


async def drag(pilot: Running, start: tuple[int, int], end: tuple[int, int]) -> None:
    await pilot.mouse_down(offset=start)
    await pilot.hover(offset=end)
    await pilot.mouse_up(offset=end)


async def test_dragging_selects_and_copies_text_without_marks_and_soft_breaks() -> None:
    app = Screen()
    async with app.run_test(size=(44, 24)) as pilot:
        app.view.add_user(1, "a question")
        app.view.add_assistant(
            "One sentence that is long enough to be wrapped in this view.\n\n```py\nx = 1\ny = 2\n```"
        )
        app.view.frame()
        await drag(pilot, (0, 0), (42, 23))
        assert app.copied == [
            "a question\n\nOne sentence that is long enough to be wrapped in this view.\n\nx = 1\ny = 2"
        ]
        selection = app.view.column.page.palette.selection.bgcolor
        assert any(
            s.style and s.style.bgcolor == selection for row in app.view.render_lines(Region(0, 0, 43, 24)) for s in row
        )
        assert app.view.clear_selection()
        assert app.view.selected_text == ""


async def test_a_part_of_a_line_can_be_selected_backwards() -> None:
    app = Screen()
    async with app.run_test(size=(44, 10)) as pilot:
        app.view.add_assistant("some words here")
        app.view.frame()
        await drag(pilot, (12, 0), (8, 0))
        assert app.copied == ["words"]


async def test_a_click_copies_nothing() -> None:
    app = Screen()
    async with app.run_test(size=(44, 10)) as pilot:
        app.view.add_assistant("some words here")
        app.view.frame()
        await pilot.click(offset=(8, 0))
        assert app.copied == []


async def test_turns_of_the_wheel_add_up() -> None:
    app = Screen()
    async with app.run_test(size=(80, 24)) as pilot:
        app.view.load(numbered(100))
        app.view.frame()
        for kind in (MouseScrollUp, MouseScrollUp, MouseScrollUp, MouseScrollUp, MouseScrollDown):
            app.view.post_message(kind(app.view, 5, 5, 0, 0, 0, False, False, False))
        await pilot.pause()
        assert screen(app.view).rstrip().endswith("message 94")
        assert not app.view.following


async def test_the_scroll_bar_shows_and_moves_the_place() -> None:
    app = Screen()
    async with app.run_test(size=(80, 24)) as pilot:
        app.view.load(numbered(100))
        app.view.frame()
        await pilot.mouse_down(offset=(79, 0))
        assert screen(app.view).split("\n")[0].strip() == "message 0"
        await pilot.hover(offset=(79, 23))
        await pilot.mouse_up(offset=(79, 23))
        assert app.view.following
        assert app.view.viewport.thumb(24) == (22, 24)


async def test_everything_loaded_is_there(app: Screen) -> None:
    app.view.load(everything("[word]"))
    lines = [line.strip() for line in screen(app.view).split("\n") if line.strip()]
    assert lines[0] == "▌ [word]"
    assert lines[1] == "◇ Thought: [word] ▸"
    assert "✗ [word] [word] · 1 line ▸" in lines
    assert "✗ bash [word] · exit 1 · 0.0 s · [word] ▸" in lines
    assert "● edit [word] · +1 −1 · [word] ▾" in lines
    assert "● grep [word] · [word] ▸" in lines
    assert lines[-1].startswith("─── [word] ▸ ──")
