"""Secrets in long texts, where most forms are ruled out by the pairs of characters that are there."""

import random

import pytest

from agent.secret_search import find_forms
from tests.fakes.secret_keys import made_keys

LONG = 6_000
FILLERS = ("y\n", "one more line of a log, 12 ms\n", "é ü ñ\n", "€ 你好\n")


@pytest.mark.parametrize("filler", FILLERS)
def test_R50_a_long_text_hides_no_form_wherever_it_stands(filler: str) -> None:
    around = filler * (LONG // len(filler))
    for text in made_keys(7).values():
        alone = {found.kind for found in find_forms(f"\n{text}\n")}
        for whole in (f"\n{text}\n{around}", f"{around}\n{text}\n", f"{around}\n{text}\n{around[:-1]}"):
            assert alone <= {found.kind for found in find_forms(whole)}, text


def test_R50_long_lines_that_readers_cut_are_told_from_short_ones() -> None:
    chance = random.Random(2)
    for length in (0, 1, 288, 289, 290, 291, 400, 5_000):
        line = "".join(chance.choice("ab -_") for _ in range(length)) + " sk-ant-abcdef"
        for before, behind in (("", ""), ("short\n", "\nshort"), ("x" * 300 + "\n", "\n" + "x" * 300)):
            found = [text for text in find_forms(before + line + behind) if text.kind == "beginning of a key"]
            wanted = len(line) >= 290
            assert len(found) == wanted
            if wanted:
                start = len(before) + line.rindex("sk-ant-")
                assert (found[0].start, found[0].end) == (start, len(before) + len(line))


@pytest.mark.parametrize("before", ["", "SG.", "a/dp.", "x=", "é", "€", "\n-", "?sig=", "/api/webhooks/", "hvs.ya29."])
def test_R50_what_looks_like_the_beginning_of_a_key_hides_none_behind_it(before: str) -> None:
    for text in ("", "y\n" * LONG):
        for name in ("GitHub", "npm", "AWS, id"):
            key = made_keys(3)[name]
            places = [(found.start, found.end) for found in find_forms(f"{text}{before}{key} more")]
            assert (len(text) + len(before), len(text) + len(before) + len(key)) in places
