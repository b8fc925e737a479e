"""The bar and its legend: shares that are right, kinds that can be told apart, at any size and without colours."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.color import Color
from textual.geometry import Size
from textual.theme import BUILTIN_THEMES, Theme

from agent.context.pieces import Piece
from agent.events import GaugeChanged
from tests.tui.context_window import ContextApp, FakeWindow, some_pieces
from tests.tui.harness import rows, settle
from tui.themes import CLAW_DARK, CLAW_LIGHT, CONTRAST, contrast, palette_for
from tui.widgets.kinds import FREE, GRAPHIC_CONTRAST, KINDS, RESERVE, kind_of, order_of, tints
from tui.widgets.window_map import bar_rows_of, letter_rows, mark_row, trigger_cell
from tui.widgets.window_shape import Bar, apportion, legend, share_text, window_shape

PALETTE = palette_for(CLAW_DARK)
KIND_NAMES = [name for name in KINDS if name not in (FREE, RESERVE)]
PIECES = st.lists(
    st.builds(
        lambda kind, tokens: Piece(kind, "", "", tokens),
        st.sampled_from(KIND_NAMES),
        st.integers(0, 50_000),
    ),
    max_size=60,
)


def gauge(pieces: list[Piece], effective: int = 172_000, window: int = 200_000, trigger: int = 150_000) -> GaugeChanged:
    return GaugeChanged(sum(piece.tokens for piece in pieces), True, effective, window, trigger, None)


@given(st.lists(st.integers(0, 10**7), max_size=20), st.integers(0, 500))
def test_units_are_in_proportion_and_nothing_small_is_lost(sizes: list[int], units: int) -> None:
    shares = apportion(sizes, units)
    total = sum(sizes)
    assert sum(shares) == (units if total else 0)
    seen = sum(size > 0 for size in sizes)
    if units >= seen:
        assert all(share > 0 for size, share in zip(sizes, shares, strict=True) if size)
    for size, share in zip(sizes, shares, strict=True):
        assert size or not share
        if total and share > 1:
            assert share <= size * units / total + 1
        assert not total or share >= size * units / total - 1 - seen  # what the small ones took


@given(PIECES, st.integers(1, 120), st.sampled_from([(0, 0, 0), (172_000, 200_000, 150_000), (5_000, 6_000, 4_000)]))
def test_the_bar_is_as_wide_as_asked_and_every_part_stands_in_its_band(
    pieces: list[Piece], width: int, limits: tuple[int, int, int]
) -> None:
    shape = window_shape(pieces, gauge(pieces, *limits))
    used = sum(piece.tokens for piece in pieces)
    assert sum(band.tokens for band in shape.bands) == max(used, limits[1])
    for per_cell in (1, 2):
        bar = Bar.of(shape, width, per_cell)
        assert sum(bar.units) == (width * per_cell if shape.bands else 0)
        for place, piece in enumerate(pieces):
            extent = bar.extent(shape, pieces, place)
            if not piece.tokens:
                assert extent is None
            else:
                assert extent is not None and 0 <= extent[0] < extent[1] <= width
    bar = Bar.of(shape, width, 2)
    for row in bar_rows_of(shape, bar, 2, PALETTE):
        assert sum(cell_len(segment.text) for segment in row) == (width if shape.bands else 0)


def test_M_kinds_stand_in_the_order_of_a_request_and_free_room_and_reserve_come_last() -> None:
    pieces = some_pieces()
    shape = window_shape(pieces, gauge(pieces))
    kinds = [band.kind for band in shape.bands]
    assert kinds == [
        "system", "tools", "instructions", "summary", "pins", "user", "assistant", "thinking", "tool_results",
        "reminders", "free", "reserve",
    ]  # fmt: skip
    assert {band.kind: band.tokens for band in shape.bands}["tool_results"] == 27_690
    assert shape.bands[-1].tokens == 28_000
    assert order_of("user") < order_of("of a newer agent") < order_of(FREE)
    assert kind_of("of_a\x1b_newer agent").label == "of a␛ newer a…"


def test_over_the_limit_nothing_is_free_and_the_reserve_shrinks() -> None:
    pieces = [Piece("user", "", "", 190_000)]
    shape = window_shape(pieces, gauge(pieces))
    assert [(band.kind, band.tokens) for band in shape.bands] == [("user", 190_000), ("reserve", 10_000)]
    too_much = [Piece("user", "", "", 900_000)]
    assert [band.kind for band in window_shape(too_much, gauge(too_much)).bands] == ["user"]


def test_the_trigger_is_marked_where_it_is_and_only_if_it_is_on_the_bar() -> None:
    pieces = some_pieces()
    shape = window_shape(pieces, gauge(pieces))
    assert trigger_cell(shape, 100) == 75
    assert "".join(s.text for s in mark_row(shape, None, 100, PALETTE))[75:].startswith("▲ compaction at 150k")
    near_end = "".join(s.text for s in mark_row(shape, (0, 3), 90, PALETTE))
    assert near_end.startswith("▔▔▔ ") and near_end.rstrip().endswith("▲ compaction at 150k") is (
        len(near_end) - 67 > 21
    )
    assert [row[75].text for row in bar_rows_of(shape, Bar.of(shape, 100, 2), 3, PALETTE)] == ["│"] * 3
    assert trigger_cell(window_shape(pieces, gauge(pieces, trigger=0)), 100) is None
    assert trigger_cell(window_shape(pieces, gauge(pieces, 0, 0, 150_000)), 100) is None


@pytest.mark.parametrize("trigger", range(45_000, 172_000, 7_000))
def test_a_name_on_the_bar_is_never_cut_by_the_mark(trigger: int) -> None:
    pieces = some_pieces()
    shape = window_shape(pieces, gauge(pieces, trigger=trigger))
    bar = Bar.of(shape, 100, 2)
    top, lower = ("".join(segment.text for segment in row) for row in bar_rows_of(shape, bar, 2, PALETTE))
    assert top.count("│") == lower.count("│") == 1
    assert "free 130k" in top and "reserve" in top and "free" not in lower


def test_NO_COLOR_shows_each_kind_by_its_letter() -> None:
    pieces = some_pieces()
    shape = window_shape(pieces, gauge(pieces))
    text = letter_rows(shape, Bar.of(shape, 100, 1), 1, PALETTE)[0][0].text
    assert len(text) == 100 and text[75] == "│"
    assert [letter for letter, _ in itertools.groupby(text.replace("│", "·"))] == list("STICPUAHRN·/")
    assert text.count("R") == pytest.approx(14, abs=2) and text.count("/") == pytest.approx(14, abs=2)
    letters = [kind.letter for kind in KINDS.values()]
    assert len(set(letters)) == len(letters)


@pytest.mark.parametrize("width", [1, 20, 40, 78, 118, 198])
@pytest.mark.parametrize("max_rows", [0, 1, 2, 4, 6])
def test_the_legend_keeps_to_its_rows_and_leaves_out_the_smallest(width: int, max_rows: int) -> None:
    pieces = some_pieces()
    shape = window_shape(pieces, gauge(pieces))
    shown = legend(shape, width, max_rows)
    assert len(shown) <= max_rows
    bands = [band for row in shown for band, _ in row]
    left_out = [band.tokens for band in shape.bands if band not in bands]
    assert not left_out or not bands or max(left_out) <= min(band.tokens for band in bands)
    if width >= 30:
        assert all(sum(2 + cell_len(text) for _, text in row) <= width + 4 for row in shown)
    if width >= 78 and max_rows >= 4:
        assert not left_out


def test_shares_are_short_and_never_none_for_something() -> None:
    texts = [share_text(tokens, 100_000) for tokens in (0, 1, 99, 100, 9_900, 9_950, 50_000, 100_000)]
    assert texts == ["0%", "<.1%", "<.1%", "0.1%", "9.9%", "10%", "50%", "100%"]
    assert share_text(5, 0) == "<.1%"


@pytest.mark.parametrize("theme", [CLAW_DARK, CLAW_LIGHT], ids=lambda theme: theme.name)
def test_fills_stand_out_and_can_be_told_from_each_other(theme: Theme) -> None:
    palette = palette_for(theme)
    tint = tints(palette)
    assert palette.text.bgcolor is not None
    base = Color.from_rich_color(palette.text.bgcolor)
    for name in KIND_NAMES:
        fill, label = Color.parse(tint(name).fill), tint(name).label.color
        assert contrast(fill, base) >= GRAPHIC_CONTRAST, name
        assert label is not None and contrast(Color.from_rich_color(label), fill) >= CONTRAST, name
        text = tint(name).text.color
        assert text is not None and contrast(Color.from_rich_color(text), base) >= CONTRAST, name
    for one, other in itertools.combinations(KIND_NAMES, 2):
        a, b = Color.parse(tint(one).fill), Color.parse(tint(other).fill)
        assert sum((x - y) ** 2 for x, y in zip(a.rgb, b.rgb, strict=True)) ** 0.5 >= 24, (one, other)


@pytest.mark.parametrize("theme", [theme for theme in BUILTIN_THEMES.values() if theme.ansi], ids=lambda t: t.name)
def test_an_ansi_theme_draws_with_the_terminals_colours_alone(theme: Theme) -> None:
    palette = palette_for(theme)
    pieces = some_pieces()
    shape = window_shape(pieces, gauge(pieces))
    for row in bar_rows_of(shape, Bar.of(shape, 90, 2), 2, palette):
        for segment in row:
            assert segment.style is not None
            for color in (segment.style.color, segment.style.bgcolor):
                assert color is None or color.is_system_defined or color.is_default
    assert {segment.text for segment in row if segment.text in "▌▐"} == {"▌"}


@pytest.mark.parametrize("color", [True, False])
async def test_the_selected_part_is_marked_under_the_bar(color: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not color:
        monkeypatch.setenv("NO_COLOR", "1")
    held = [Piece("user", "", str(number), 40_000, (number,)) for number in range(1, 4)]
    app = ContextApp(FakeWindow(held))
    async with app.run_test(size=(82, 30)) as pilot:
        await settle(app)
        marks = []
        for _ in held:
            marks.append(rows(app)[3])
            await pilot.press("down")
            await settle(app)
        places = [row.index("▔") for row in marks]
        assert places == [1, 17, 33]
        assert all(row.count("▔") in (16, 17) for row in marks)
        assert app.size == Size(82, 30)
