from hypothesis import given
from hypothesis import strategies as st

from providers.unicode import SurrogateJoiner, clean

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
