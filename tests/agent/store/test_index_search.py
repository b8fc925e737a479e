"""The line that a search shows of what it found."""

import pytest

from agent.store.index_search import excerpt, words_of


@pytest.mark.parametrize(
    ("body", "words", "shown"),
    [
        ("a walrus", ["none"], "a walrus"),
        ("x" * 300, ["none"], "x" * 120 + "…"),
        ("a\n\n  walrus\tswims", ["walrus"], "a walrus swims"),
        ("walrus" + "x" * 120, ["walrus"], "walrus" + "x" * 120),
        ("walrus" + "x" * 121, ["walrus"], "walrus" + "x" * 120 + "…"),
        ("x" * 120 + "walrus", ["walrus"], "x" * 120 + "walrus"),
        ("x" * 121 + "walrus", ["walrus"], "…" + "x" * 120 + "walrus"),
        ("ocelot" + "x" * 300 + "Walrus", ["walrus", "ocelot"], "ocelot" + "x" * 120 + "…"),
    ],
)
def test_an_excerpt_stands_around_the_first_word_that_is_there(body: str, words: list[str], shown: str) -> None:
    assert excerpt(body, words) == shown


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        ('"" " "', ['""']),
        ('One "two  Three" one', ["one", "two  three"]),
        ("a\0b", ["a", "b"]),
        (" ".join(map(str, range(20))), [str(number) for number in range(16)]),
    ],
)
def test_the_words_are_lower_case_and_each_once(text: str, words: list[str]) -> None:
    assert words_of(text) == words
