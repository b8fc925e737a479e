from hypothesis import given, settings
from hypothesis import strategies as st

from agent.context.fence import disarm, fence
from agent.context.shorten import common_length, cut_middle
from agent.context.tokens import estimate


@given(st.lists(st.integers(0, 500), max_size=30), st.integers(-10, 5_000))
def test_common_length_is_the_largest_that_fits(sizes: list[int], budget: int) -> None:
    length = common_length(sizes, budget)
    if length is None:
        assert sum(sizes) <= max(budget, 0)
        return
    assert sum(min(size, length) for size in sizes) <= max(budget, 0)
    assert sum(min(size, length + 1) for size in sizes) > budget


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=3_000), st.integers(0, 500))
def test_a_text_cut_in_its_middle_keeps_both_ends_and_fits(text: str, most: int) -> None:
    short = cut_middle(text, most, estimate, lambda n: f"[{n} left out]")
    if estimate(text) <= most:
        assert short == text
        return
    assert "left out]" in short
    assert estimate(short) <= max(most, estimate(f"[{estimate(text)} left out]"))
    head, _, tail = short.partition("[")
    assert text.startswith(head.rstrip("\n")) or "[" in text
    assert text.endswith(tail.partition("]")[2].lstrip("\n")) or "]" in text


def test_a_text_without_tokens_stays_even_without_any_room() -> None:
    assert cut_middle("", -3, estimate, str) == ""
    assert cut_middle("word", -3, estimate, lambda _: "cut") == "cut"


def test_cutting_prefers_line_ends() -> None:
    text = "\n".join(f"line number {n}" for n in range(400))
    short = cut_middle(text, 200, estimate, lambda n: f"[{n} left out]").split("\n")
    assert all(line.startswith("line number ") or line.endswith(" left out]") for line in short)
    assert (short[0], short[-1]) == ("line number 0", "line number 399")


@given(st.text(alphabet="`~a\n ", max_size=200), st.text(alphabet="`~", max_size=40))
def test_B4_a_fence_is_longer_than_any_run_inside(text: str, run: str) -> None:
    body = text + run
    line, rest = fence(body).split("\n", 1)
    assert rest == f"{body}\n{line}"
    assert set(line) == {"`"}
    assert len(line) >= 3
    assert line not in body
    assert "~" * len(line) not in body


def test_B4_own_tags_are_disarmed_and_nothing_else() -> None:
    text = '<reminder kind="x">a</reminder> </ATTACHMENT> <b> a < b <remind> < project_instructions>'
    assert disarm(text) == (
        '&lt;reminder kind="x">a&lt;/reminder> &lt;/ATTACHMENT> <b> a < b <remind> &lt; project_instructions>'
    )
