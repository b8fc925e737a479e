import re
from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from agent.context.attachments import Attachment
from agent.context.compaction import (
    Compacted,
    CompactionInputs,
    Draft,
    NotCompacted,
    Reply,
    Summary,
    compact,
    estimate,
    finish,
    prepare,
    summarise,
)
from agent.context.render import RenderedPiece
from agent.context.rounds import Round, drop_oldest, take_part
from agent.transcript import FileFact, Prefix, Result
from providers.base import ModelRequest
from providers.errors import ContextOverflowError, ProviderError
from providers.types import PromptSection, TextBlock, Usage
from tests.agent.context.compaction_kit import SUMMARY, Model, commit, done, full, only_text, refused
from tests.agent.context.talk import TOOLS, Talk, facts, texts


class Limited:
    """Refuses what is over its window, by its own count of prompt and reply, as a provider does."""

    def __init__(self, talk: Talk, window: int, names_it: bool = True, answer: str = SUMMARY) -> None:
        self._talk = talk
        self._window = window
        self._names_it = names_it
        self._answer = answer
        self.requests: list[ModelRequest] = []
        self.refused = 0

    async def __call__(self, request: ModelRequest) -> Reply:
        self.requests.append(request)
        system = sum(self._talk.meter.count(section.text) for section in request.system)
        if system + self._talk.meter.count(only_text(request)) + request.max_tokens > self._window:
            self.refused += 1
            raise ContextOverflowError("too long", window_tokens=self._window if self._names_it else None)
        return Reply(self._answer, False, "end_turn", Usage(100, 0, 0, 20), 0.5)


def drafted(inputs: CompactionInputs) -> Draft:
    draft = prepare(inputs)
    assert isinstance(draft, Draft), draft
    return draft


def part_texts(model: Limited | Model) -> list[str]:
    return [only_text(request) for request in model.requests]


async def test_C4a_B13_a_session_of_three_million_tokens_goes_onto_a_32k_window_in_requests_that_all_fit() -> None:
    talk = Talk()
    for step in range(2_000):
        if step % 50 == 0:
            talk.user(f"DEMAND-{step}")
        talk.step(f"c{step}", f"RESULT-{step} " + "word " * 1_200)
    assert talk.meter.used().tokens > 3_000_000
    inputs = talk.inputs(window=32_768)
    draft = drafted(inputs)
    said = estimate(inputs, draft)
    progress: list[tuple[int, int]] = []
    model = Limited(talk, 32_768)
    summary = await summarise(inputs, draft, model, lambda done, calls: progress.append((done, calls)))
    assert (summary.fault, model.refused, summary.calls) == (None, 0, len(model.requests))
    assert said.calls * 0.8 < len(model.requests) <= said.calls
    assert said.input_tokens >= sum(talk.meter.count(text) for text in part_texts(model))
    assert said.output_tokens == said.calls * draft.output_cap
    assert progress[0][0] == 0
    assert progress[-1] == (len(model.requests), len(model.requests))
    assert [done for done, _ in progress] == sorted(done for done, _ in progress)
    together = "\n".join(part_texts(model))
    first_kept = draft.first_kept
    assert {int(step) for step in re.findall(r"RESULT-(\d+) ", together)} >= set(range(1_990))
    assert f"[{first_kept}]" not in together
    outcome = finish(inputs, draft, summary)
    assert isinstance(outcome, Compacted)
    commit(talk, outcome)
    assert talk.meter.used().tokens < inputs.thresholds.trigger
    assert all(f"DEMAND-{step}" in texts(talk.window) for step in range(0, 2_000, 50))


async def test_C4a_each_part_brings_the_summary_of_the_one_before_up_to_date() -> None:
    talk = full(turns=60)
    model = Model("FIRST", "SECOND", "THIRD", "FOURTH", "LAST")
    payload = await done(talk.inputs(), model)
    said = part_texts(model)
    assert len(said) >= 3
    assert "earlier summary" not in said[0].lower()
    assert "The earlier summary:\n\n```\nFIRST\n```" in said[1]
    assert "SECOND" in said[2]
    assert "FIRST" not in said[2]
    assert "part 1 of it, oldest first, and more follows" in said[0]
    assert f"its last part, part {len(said)}" in said[-1]
    assert payload.usage.output_tokens == 20 * len(said)
    assert payload.cost_usd == 0.5 * len(said)
    order = [text.index(f"USER-{turn} please") for turn in range(3) for text in said[:1]]
    assert order == sorted(order)


async def test_a_transcript_a_little_too_long_is_shortened_instead_of_paid_for_twice() -> None:
    talk, model = full(turns=17), Model()
    await done(talk.inputs(window=8_000), model)
    assert len(model.requests) == 1


async def test_I11_a_summary_from_a_larger_model_is_cut_so_that_the_first_part_fits() -> None:
    talk = full(turns=30)
    talk.append(await done(talk.inputs("manual", window=200_000), Model("OLD-HEAD " + "fact " * 9_000 + "OLD-TAIL")))
    full(talk, turns=20)
    model = Limited(talk, 8_192)
    summary = await summarise(talk.inputs(), drafted(talk.inputs()), model)
    assert (summary.fault, model.refused) == (None, 0)
    assert "OLD-HEAD" in part_texts(model)[0]
    assert "OLD-TAIL" in part_texts(model)[0]


async def test_a_group_longer_than_a_part_is_spread_over_several() -> None:
    talk = Talk()
    talk.user("go")
    ids = tuple(f"c{n}" for n in range(30))
    talk.reply("look", ids)
    for n, call_id in enumerate(ids):
        talk.result(call_id, f"RESULT-{n} " + "word " * 500)
    full(talk, turns=3)
    model = Limited(talk, 8_192)
    await done(talk.inputs(), model)
    assert model.refused == 0
    assert len(model.requests) >= 3
    assert all(sum(f"RESULT-{n} " in text for text in part_texts(model)) == 1 for n in range(30))


async def test_C4a_a_part_found_too_long_loses_its_oldest_rounds_and_is_tried_three_times_more() -> None:
    talk = full(turns=16)
    model = Limited(talk, 5_000, names_it=False)
    outcome = await compact(talk.inputs(window=8_000), model)
    assert isinstance(outcome, Compacted)
    assert 1 <= model.refused <= 3
    last = part_texts(model)[-1]
    assert "USER-0 please" in part_texts(model)[0]
    assert "USER-0 please" not in last
    assert "USER-11 please" in last


async def test_C4a_a_fourth_refusal_fails_and_changes_nothing() -> None:
    model = Model(ContextOverflowError("too long"))
    outcome = await refused(full(turns=16).inputs(window=8_000), model)
    assert (len(model.requests), outcome.failed) == (4, True)
    assert "too long" in outcome.reason
    sizes = [len(text) for text in part_texts(model)]
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes)) == 4


async def test_C4a_one_round_that_is_too_long_alone_is_shortened() -> None:
    talk = Talk()
    talk.user("go")
    ids = tuple(f"c{n}" for n in range(12))
    talk.reply("look", ids)
    for call_id in ids:
        talk.result(call_id, "word " * 600)
    talk.step("last", "ok")
    model = Limited(talk, 6_000, names_it=False)
    outcome = await compact(talk.inputs("overflow", window=20_000), model)
    assert isinstance(outcome, Compacted), outcome
    assert model.refused > 0


async def test_C4a_where_the_provider_names_its_limit_the_parts_get_smaller_and_nothing_is_left_out() -> None:
    talk = full(turns=16)
    model = Limited(talk, 4_000)
    await done(talk.inputs(window=8_000), model)
    assert model.refused == 1
    together = "\n".join(part_texts(model)[1:])
    assert all(f"USER-{turn} please" in together for turn in range(12))


async def test_a_part_that_was_cut_off_serves_the_next_one_and_the_last_must_not_be() -> None:
    half = Reply("HALF", False, "max_tokens", Usage(1, 0, 0, 1))
    model = Model(half, SUMMARY)
    payload = await done(full(turns=30).inputs(), model)
    assert "HALF" in part_texts(model)[1]
    assert payload.summary == SUMMARY
    model = Model(SUMMARY, half)
    assert "cut off" in (await refused(full(turns=30).inputs(), model)).reason


@pytest.mark.parametrize("bad", [Reply("", False, "end_turn"), Reply("x", True, "tool_use"), ProviderError("boom")])
async def test_B3_a_bad_reply_to_any_part_stops_it_there(bad: Reply | ProviderError) -> None:
    model = Model(SUMMARY, bad)
    outcome = await refused(full(turns=60).inputs(), model)
    assert len(model.requests) == 2
    assert outcome.usage.output_tokens == 20  # what the first part cost is told


async def test_I13_after_one_cut_reply_the_later_parts_begin_at_the_lowest_level() -> None:
    cut = Reply("half", False, "max_tokens", Usage(1, 0, 0, 9, 9))
    model = Model(cut, SUMMARY)
    await done(full(turns=40).inputs(efforts=("low", "high")), model)
    assert [request.effort for request in model.requests][:3] == [None, "low", "low"]


async def test_a_window_without_room_for_any_transcript_makes_no_call() -> None:
    model = Model()
    inputs = replace(full().inputs("overflow"), summary_facts=facts(window=900, cap=300))
    outcome = await refused(inputs, model)
    assert "does not fit" in outcome.reason
    assert model.requests == []
    assert estimate(inputs, drafted(inputs)).calls == 0


def test_the_estimate_of_the_shared_form_is_one_call_with_all_of_the_window() -> None:
    talk = full(turns=10)
    inputs = talk.inputs()
    draft = drafted(inputs)
    found = estimate(inputs, draft)
    assert (found.calls, found.output_tokens) == (1, draft.output_cap)
    assert talk.meter.used().tokens < found.input_tokens < talk.meter.used().tokens + 1_000


async def test_K13_what_is_attached_again_is_left_out_of_the_rendered_form() -> None:
    talk = Talk()
    talk.user("go")
    talk.reply("look", ("r1", "r2"))
    for call_id, path in (("r1", "/p/a.py"), ("r2", "/p/b.py")):
        fact = FileFact(path, "0" * 64, ((1, 1),), whole=True)
        talk.append(Result(call_id, "read", (TextBlock(f"1\tTEXT OF {path} "),), files=(fact,)))
    full(talk)
    model = Model()
    inputs = replace(talk.inputs("overflow"), attachments=[Attachment("file", "/p/a.py", "1\tTEXT OF /p/a.py")])
    await done(inputs, model)
    text = only_text(model.requests[0])
    assert "TEXT OF /p/a.py" not in text
    assert "(the text of /p/a.py, which is attached again)" in text
    assert "TEXT OF /p/b.py" in text


async def test_the_same_branch_and_answers_give_the_same_requests() -> None:
    first, second = Model(), Model()
    await done(full(turns=30).inputs(), first)
    await done(full(turns=30).inputs(), second)
    assert first.requests == second.requests


async def test_a_summary_that_the_model_did_not_give_is_no_draft_of_one() -> None:
    talk = full()
    inputs = talk.inputs()
    summary = await summarise(inputs, drafted(inputs), Model(ProviderError("boom")))
    assert summary == Summary("", "the summary failed: boom", Usage(), None, ProviderError("boom").remedy, 1)
    talk.append(Prefix((PromptSection("identity", "You are claw.", True),), TOOLS))
    assert isinstance(prepare(inputs), Draft | NotCompacted)


rounds = st.lists(st.lists(st.integers(1, 90), min_size=1, max_size=6), min_size=1, max_size=20)


@settings(max_examples=100, deadline=None)
@given(rounds, st.integers(100, 300))
def test_parts_hold_every_piece_once_in_order_and_fit(sizes: list[list[int]], room: int) -> None:
    every = [
        Round.of(RenderedPiece(n * 10 + place, "USER", "x", size) for place, size in enumerate(pieces))
        for n, pieces in enumerate(sizes)
    ]
    queue, parts = deque(every), []
    while queue:
        parts.append(take_part(queue, room))
    assert [piece.key for part in parts for item in part for piece in item.pieces] == [
        piece.key for item in every for piece in item.pieces
    ]
    assert all(sum(item.tokens for item in part) <= room for part in parts)
    whole = {tuple(item.pieces) for item in every if item.tokens <= room}
    assert whole <= {tuple(item.pieces) for part in parts for item in part} or any(r.tokens > room for r in every)


def test_dropping_the_oldest_keeps_the_newest_round_in_any_case() -> None:
    part = [Round((), size) for size in (10, 10, 10, 70)]
    assert drop_oldest(part, 0.2) == part[2:]
    assert drop_oldest(part, 1.0) == part[3:]
