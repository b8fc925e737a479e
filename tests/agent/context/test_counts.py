from hypothesis import given
from hypothesis import strategies as st

from agent.context.counts import Counts

KEYS = st.one_of(st.integers(1, 40), st.integers(1, 1 << 70))


@given(st.lists(st.tuples(KEYS, st.none() | st.integers(0, 100_000))))
def test_it_holds_what_a_dictionary_would(steps: list[tuple[int, int | None]]) -> None:
    counts, expected = Counts(), dict[int, int]()
    for key, count in steps:
        if count is None:
            counts.discard(key)
            expected.pop(key, None)
        else:
            counts[key] = count
            expected[key] = count
        assert dict(counts.items()) == expected
        assert counts.get(key) == expected.get(key) and (key in counts) == (key in expected)


def test_a_key_far_away_takes_no_room() -> None:
    counts = Counts()
    counts[1 << 60] = 7
    counts[3] = 5
    assert (counts[1 << 60], counts[3], counts.get(4)) == (7, 5, None)
