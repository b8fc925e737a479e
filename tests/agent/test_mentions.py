import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.mentions import find_mentions, leaves_project, mention, readings, word_at


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("see @src/app.py and @README.md", ("src/app.py", "README.md")),
        ("@a.py twice @a.py", ("a.py",)),
        ("(@a.py) [@b.py], '@c.py'", ("a.py)", "b.py],", "c.py'")),
        ('open @"two words.md" now', ("two words.md",)),
        ('@"quo\\"te" and @"new\\nline"', ('quo"te', "new\nline")),
        ("mail me@example.org, a@b", ()),
        ("only @ alone, @@ and @", ()),
        ('@"never closed', ()),
        ("line\n@x/y\n\t@z", ("x/y", "z")),
        ("@~/notes and @/etc/hosts", ("~/notes", "/etc/hosts")),
    ],
)
def test_mentions_are_found_as_they_are_written(text: str, paths: tuple[str, ...]) -> None:
    assert find_mentions(text) == paths


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("a.py", [("a.py", None)]),
        ("a.py).", [("a.py).", None), ("a.py)", None), ("a.py", None)]),
        ("a.py:3", [("a.py:3", None), ("a.py", (3, 3))]),
        ("a.py:3-9,", [("a.py:3-9,", None), ("a.py:3-9", None), ("a.py", (3, 9))]),
        ("...", [("...", None), ("..", None), (".", None)]),
    ],
)
def test_B14_punctuation_and_lines_are_told_from_names(
    written: str, meant: list[tuple[str, tuple[int, int] | None]]
) -> None:
    assert list(readings(written)) == meant


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30))
def test_any_path_can_be_mentioned_in_a_sentence(path: str) -> None:
    written = mention(path)
    assert written.isprintable()
    assert find_mentions(f"look at {written} please") == (path,)
    word = word_at(f"look at {written}", len("look at ") + len(written) - written.endswith('"'))
    assert word is not None and word.query == path and word.start == len("look at ")


@pytest.mark.parametrize(
    ("line", "query", "replaced"),
    [
        ("@|", "", "@"),
        ("see @sr| now", "sr", "@sr"),
        ("see @sr|c/app.py now", "sr", "@src/app.py"),
        ('see @"two w| and more', "two w", '@"two w'),
        ('see @"two w|ords.md" and "more"', "two w", '@"two words.md"'),
        ("(@a|b)", "a", "@ab)"),
    ],
)
def test_the_word_under_the_cursor(line: str, query: str, replaced: str) -> None:
    column = line.index("|")
    plain = line.replace("|", "")
    word = word_at(plain, column)
    assert word is not None and (word.query, plain[word.start : word.end]) == (query, replaced)


@pytest.mark.parametrize("line", ["|@a", "a@b|", "@a |", "@a b|", "x|", "|"])
def test_no_word_where_none_is_written(line: str) -> None:
    assert word_at(line.replace("|", ""), line.index("|")) is None


def test_what_leads_out() -> None:
    assert all(leaves_project(path) for path in ("/etc/hosts", "~/x", "../x", "a/../../x"))
    assert not any(leaves_project(path) for path in ("a", "a..b/c", "..a"))
