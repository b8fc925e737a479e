import difflib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.tools.unified_diff import diff_texts

TEXTS = st.lists(st.sampled_from("abcd"), max_size=30)


@given(TEXTS, TEXTS)
def test_applying_the_diff_gives_the_new_text(old: list[str], new: list[str]) -> None:
    before, after = "".join(f"{line}\n" for line in old), "".join(f"{line}\n" for line in new)
    diff = diff_texts(before, after)
    assert patched(before, diff.diff) == after
    assert diff.added - diff.removed == len(new) - len(old)
    assert (diff.diff == "") == (old == new)


def patched(before: str, diff: str) -> str:
    old, result, place = before.splitlines(), [], 0
    for line in diff.split("\n") if diff else []:
        if line.startswith("@@"):
            span = line.split(" ")[1][1:].split(",")
            start = int(span[0]) - (0 if span[1:] == ["0"] else 1)
            result += old[place:start]
            place = start
            continue
        if line[0] in " -":
            assert old[place] == line[1:]
            place += 1
        if line[0] in " +":
            result.append(line[1:])
    return "".join(f"{line}\n" for line in result + old[place:])


def test_it_is_what_difflib_gives() -> None:
    old, new = list("abcdefghijklmnop"), list("abXdefghijklmnoYp")
    expected = list(difflib.unified_diff(old, new, lineterm=""))[2:]
    assert diff_texts("\n".join(old) + "\n", "\n".join(new) + "\n").diff.split("\n") == expected


def test_a_missing_final_newline_is_shown() -> None:
    assert diff_texts("a\n", "a").diff == "@@ -1 +1 @@\n-a\n+a\n\\ No newline at end of file"
    assert diff_texts("", "a\n").diff == "@@ -0,0 +1 @@\n+a"
    assert diff_texts("a\n", "").diff == "@@ -1 +0,0 @@\n-a"


def test_huge_texts_take_bounded_time_and_room() -> None:
    start = time.process_time()
    diff = diff_texts("".join(f"{n}\n" for n in range(200_000)), "".join(f"x{n}\n" for n in range(200_000)))
    assert (diff.added, diff.removed) == (200_000, 200_000)
    assert len(diff.diff) < 300_000
    assert "more lines of the diff" in diff.diff
    assert "characters)" in diff_texts("a" * 5_000_000, "b" * 5_000_000).diff
    assert time.process_time() - start < 5


def test_bytes_that_are_no_text_are_written_out() -> None:
    diff_texts("a\udcff\n", "b\udcff\n").diff.encode()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("def f{}():\n    return {}\n\n\n", "def g{}():\n    return {}\n\n\n"),
        ("x{}\n\n", "y{}\n\n"),
        ("if {}:\n}}\n", "if not {}:\n}}\n"),
    ],
)
def test_lines_that_are_alike_take_no_more_time(before: str, after: str) -> None:
    start = time.process_time()
    diff = diff_texts(*("".join(text.format(n, n) for n in range(500)) for text in (before, after)))
    assert time.process_time() - start < 1
    assert diff.added >= 500
