import pytest
from msgspec.structs import replace

from agent.context.compaction import CompactionInputs, NotCompacted, Span, compact
from agent.transcript import Undo
from agent.window import Window
from tests.agent.context.compaction_kit import Model, asked, calls, commit, compacted, full, only_text, results
from tests.agent.context.talk import Talk, texts


def spanned(talk: Talk, *, start: int = 0, kept: int | None = None, window: int = 200_000) -> CompactionInputs:
    return replace(talk.inputs("manual", window=window), span=Span(start, kept))


def key_of(talk: Talk, text: str) -> int:
    """Key of the newest message of the window that has this text."""
    places = [n for n, message in enumerate(talk.window.messages) if text in str(message.blocks)]
    return talk.window.keys[places[-1]][0]


async def test_up_to_here_keeps_that_message_and_all_behind_it() -> None:
    talk = full(turns=8)
    before, key = list(talk.window.messages), key_of(talk, "USER-3 please")
    outcome = await compacted(spanned(talk, kept=key))
    assert (outcome.compaction.first_kept, outcome.compaction.first_replaced) == (key, 0)
    commit(talk, outcome)
    first, *rest = talk.window.messages
    assert rest == before[12:]
    assert "USER-2 please" in str(first)
    assert "answer 2" not in texts(talk.window)


async def test_from_here_replaces_that_message_and_all_behind_it_where_it_stood() -> None:
    talk = full(turns=8)
    before, key = list(talk.window.messages), key_of(talk, "USER-5 please")
    model = Model()
    outcome = await compacted(spanned(talk, start=key), model)
    assert outcome.compaction.first_replaced == key
    assert f"from entry {key} on" in asked(model.requests[0])
    commit(talk, outcome)
    *front, last = talk.window.messages
    assert front == before[:20]
    said = str(last)
    assert "This part of the conversation" in said
    assert all((f"USER-{turn} please" in said) == (turn >= 5) for turn in range(8))
    talk.user("go on")
    assert len(talk.window.messages) == 22


@pytest.mark.parametrize("way", ["start", "kept"])
async def test_I10_an_entry_inside_a_round_moves_to_the_next_boundary(way: str) -> None:
    talk = full(turns=6)
    result = key_of(talk, "RESULT-2 ")
    moved = talk.window.keys[talk.window.keys.index((result,)) + 1][0]
    inputs = spanned(talk, start=result) if way == "start" else spanned(talk, kept=result)
    outcome = await compacted(inputs)
    found = outcome.compaction.first_replaced if way == "start" else outcome.compaction.first_kept
    assert found == moved
    commit(talk, outcome)
    assert calls(talk.window.messages) == results(talk.window.messages)


@pytest.mark.parametrize(
    ("start", "kept", "word"),
    [
        (0, 3, "no message stands before entry 3"),
        (0, 9_999, "nothing would stay"),
        (9_999, None, "no message begins at entry 9999"),
        (5, 7, "cannot be asked for together"),
    ],
)
async def test_where_nothing_is_left_it_is_refused_with_the_reason(start: int, kept: int | None, word: str) -> None:
    talk, model = full(turns=4), Model()
    outcome = await compact(spanned(talk, start=start, kept=kept), model)
    assert isinstance(outcome, NotCompacted)
    assert word in outcome.reason
    assert not outcome.failed
    assert model.requests == []


async def test_from_the_very_first_message_is_all_of_the_window() -> None:
    talk = full(turns=4)
    outcome = await compacted(spanned(talk, start=1))
    assert outcome.compaction.first_replaced == 0
    commit(talk, outcome)
    assert len(talk.window.messages) == 1
    talk.user("next")
    assert len(talk.window.messages) == 2


async def test_a_second_one_from_an_earlier_message_takes_the_first_one_in_and_keeps_its_words() -> None:
    talk = full(turns=8)
    commit(talk, await compacted(spanned(talk, start=key_of(talk, "USER-6 please")), Model("LATE-PART")))
    talk.user("USER-8 please")
    talk.reply("answer 8")
    model = Model()
    inputs = replace(
        spanned(talk, start=key_of(talk, "USER-4 please")), summary_facts=talk.inputs(window=100_000).facts
    )
    commit(talk, await compacted(inputs, model))
    text = only_text(model.requests[0])
    assert "EARLIER SUMMARY: LATE-PART" in text
    assert "# Record" not in text  # the program's record is made anew, not summarised
    assert all(texts(talk.window).count(f"USER-{turn} please") == 1 for turn in range(9))
    assert "LATE-PART" not in texts(talk.window)


async def test_from_behind_an_earlier_one_takes_its_whole_record_over() -> None:
    talk = full(turns=6)
    first = commit(talk, await compacted(spanned(talk, start=key_of(talk, "USER-2 please"))))
    talk.user("USER-6 please")
    talk.reply("answer 6 " + "fact " * 200)
    commit(talk, await compacted(spanned(talk, start=first.key)))
    assert all(texts(talk.window).count(f"USER-{turn} please") == 1 for turn in range(7))


async def test_a_plain_one_behind_a_part_that_stays_says_nothing_twice() -> None:
    talk = full(turns=6)
    range_ = commit(talk, await compacted(spanned(talk, start=key_of(talk, "USER-4 please"))))
    commit(talk, await compacted(spanned(talk, kept=range_.key)))
    assert len(talk.window.messages) == 2
    assert all(texts(talk.window).count(f"USER-{turn} please") == 1 for turn in range(6))
    talk.append(Undo((range_.key,)))
    assert "answer 5" in texts(talk.window)


async def test_a_plain_one_that_takes_it_all_keeps_every_word() -> None:
    talk = full(turns=6)
    commit(talk, await compacted(spanned(talk, start=key_of(talk, "USER-2 please"))))
    full(talk, turns=9)
    commit(talk, await compacted(talk.inputs()))
    assert all(f"USER-{turn} please" in texts(talk.window) for turn in range(9))


@pytest.mark.parametrize("span", [Span(), Span(3), Span(0, 3)])
async def test_I12_before_the_first_message_there_is_nothing_to_compact(span: Span) -> None:
    talk = full(turns=1)
    nothing = Talk()
    inputs = replace(talk.inputs("manual"), branch=[], window=Window(), meter=nothing.meter, span=span)
    assert await compact(inputs, Model()) == NotCompacted("there are no messages yet", False)
