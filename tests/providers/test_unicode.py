import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.unicode import SurrogateJoiner, clean, wire_name

ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()) | st.sampled_from("\ud83d\ude00a"))


@given(ANY_TEXT)
def test_T89_cleaned_text_is_utf8_and_whole_text_stays(text: str) -> None:
    cleaned = clean(text)
    cleaned.encode()
    try:
        text.encode()
    except UnicodeEncodeError:
        assert "\ufffd" in cleaned or len(cleaned) < len(text)
    else:
        assert cleaned == text


@given(st.lists(ANY_TEXT))
def test_T89_pieces_give_what_the_whole_gives(pieces: list[str]) -> None:
    joiner = SurrogateJoiner()
    joined = "".join(map(joiner.feed, pieces)) + joiner.flush()
    assert joined == clean("".join(pieces))


def test_T89_halves_that_belong_together_become_one_character() -> None:
    assert clean("a\ud83d\ude00b") == "a😀b"
    assert clean("a\ud83db") == "a\ufffdb"


@pytest.mark.parametrize(
    ("name", "sent"),
    [("read", "read"), ("mcp__a__b-c", "mcp__a__b-c"), ("a b/é", "a_b__"), ("", "unnamed"), ("x" * 200, "x" * 64)],
)
def test_a_tool_name_that_the_model_made_up_is_one_that_the_apis_take(name: str, sent: str) -> None:
    assert wire_name(name) == sent
