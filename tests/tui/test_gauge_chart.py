"""The chart of the gauge: columns that say what was, marks that stand where something happened, axes that fit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.geometry import Size

from agent.context.pieces import ChartPoint
from tui.themes import CLAW_DARK, palette_for
from tui.widgets.gauge_chart import AXIS, EVENTS, MIN_ROWS, Scale, chart_rows, columns, scale_top

PALETTE = palette_for(CLAW_DARK)


def text(points: list[ChartPoint], trigger: int, width: int, height: int) -> list[str]:
    rows = chart_rows(points, trigger, Size(width, height), PALETTE)
    return ["".join(segment.text for segment in row) for row in rows]


def steps(*used: int) -> list[ChartPoint]:
    return [ChartPoint(key, tokens) for key, tokens in enumerate(used)]


POINTS = st.lists(
    st.builds(
        ChartPoint,
        st.integers(0, 10**6),
        st.integers(0, 10**7),
        st.sampled_from(["step", "compaction", "clearing", "edit", "undo"]),
    ),
    max_size=400,
)


@given(POINTS, st.integers(0, 10**6), st.integers(0, 220), st.integers(0, 40))
def test_the_chart_keeps_to_its_place_and_shows_every_kind_of_event(
    points: list[ChartPoint], trigger: int, width: int, height: int
) -> None:
    shown = text(points, trigger, width, height)
    if height < MIN_ROWS or width < AXIS + 4:
        assert shown == []
        return
    assert len(shown) == height
    assert all(cell_len(row) <= width for row in shown)
    drawn = columns(points, width - AXIS)
    assert max((column.used_tokens for column in drawn), default=0) == max((p.used_tokens for p in points), default=0)
    if len(points) <= width - AXIS:
        happened = [point.event for point in points if point.event != "step"]
        assert [column.event for column in drawn if column.event != "step"] == happened
        assert [mark for mark in shown[-1][AXIS:] if mark != " "] == [EVENTS[event] for event in happened]


@given(st.integers(0, 10**8), st.integers(0, 10**7))
def test_the_scale_holds_the_peak_and_the_trigger_once_that_is_near(peak: int, trigger: int) -> None:
    top = scale_top(peak, trigger)
    assert top >= peak and top >= 10
    if trigger and peak * 4 >= trigger:
        assert top > trigger
    assert top <= max(10, peak, trigger) * 1.4 + 1


@given(st.integers(1, 10**7), st.integers(1, 30))
def test_a_column_grows_with_what_is_used(top: int, count: int) -> None:
    scale = Scale(count, top, 0)
    heights = [sum(scale.eighths(top * part // 10, row) for row in range(count)) for part in range(11)]
    assert heights == sorted(heights) and heights[0] == 0 and heights[-1] == 8 * count
    assert sum(scale.eighths(1, row) for row in range(count)) >= 1


def test_a_short_session_is_narrow_and_a_long_one_fills_the_width() -> None:
    assert len(columns(steps(1, 2, 3), 70)) == 12
    assert len(columns(steps(*range(40)), 70)) == 40
    assert len(columns(steps(*range(5_000)), 70)) == 70


def test_of_many_steps_the_highest_is_kept_and_a_compaction_is_never_hidden() -> None:
    points = steps(*[10] * 999)
    points[500] = ChartPoint(500, 900)
    points[501] = ChartPoint(501, 5, "compaction")
    points[502] = ChartPoint(502, 5, "clearing")
    drawn = columns(points, 10)
    assert [column.used_tokens for column in drawn] == [10, 10, 10, 10, 10, 900, 10, 10, 10, 10]
    assert [column.event for column in drawn if column.event != "step"] == ["compaction"]


def test_axis_trigger_line_and_marks_as_they_stand_on_the_screen() -> None:
    points = [*steps(40_000, 80_000, 160_000), ChartPoint(3, 30_000, "compaction"), ChartPoint(4, 60_000)]
    assert text(points, 150_000, 30, 10) == [
        "The gauge over 4 steps  ▼ com…",
        " 150k ┼┄┄┄┄┄┄┄┄▅▅▅▅┄┄┄┄┄┄┄┄┄┄┄",
        "      │        ████        ",
        "      │        ████        ",
        "      │        ████        ",
        "85.0k │    ▇▇▇▇████        ",
        "      │    ████████    ▇▇▇▇",
        "      │████████████▄▄▄▄████",
        "    0 │████████████████████",
        "      └            ▼       ",
    ]  # fmt: skip


def test_a_trigger_far_above_is_told_and_does_not_flatten_the_chart() -> None:
    shown = text(steps(5_000, 9_000), 800_000, 80, 8)
    assert shown[0] == "The gauge over 2 steps  (compaction begins at 800k, above the chart)"
    assert "┄" not in "".join(shown) and shown[1].startswith("12.0k") and "█" in shown[3]


@pytest.mark.parametrize("height", [MIN_ROWS, 24])
def test_nothing_happened_yet(height: int) -> None:
    shown = text([], 150_000, 80, height)
    assert shown[0].startswith("The gauge over 0 steps") and "█" not in "".join(shown)
