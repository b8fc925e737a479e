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
    Span,
    Summary,
    finish,
    prepare,
    summarise,
)
from agent.transcript import (
    ClearedItem,
    Clearing,
    Drop,
    FileFact,
    Payload,
    Pin,
    Reminder,
    Result,
    Rewind,
    Setting,
    User,
)
from agent.window import Window
from providers.types import TextBlock, Usage
from tests.agent.context.compaction_kit import SUMMARY, Model, calls, commit, compacted, full, results
from tests.agent.context.talk import Talk, texts

SHA = "0" * 64


def drafted(inputs: CompactionInputs) -> Draft:
    draft = prepare(inputs)
    assert isinstance(draft, Draft), draft
    return draft


def finished(inputs: CompactionInputs, draft: Draft, text: str = SUMMARY, keep: tuple[str, ...] = ()) -> Compacted:
    outcome = finish(inputs, draft, Summary(text), keep)
    assert isinstance(outcome, Compacted), outcome
    return outcome


# --------------------------------------------------------------------------- a branch that has grown


async def test_K10_what_came_since_the_draft_stays_word_for_word_behind_the_summary() -> None:
    talk = full(turns=10)
    draft = drafted(talk.inputs())
    summary = await summarise(talk.inputs(), draft, Model())
    kept = [
        message
        for message, keys in zip(talk.window.messages, talk.window.keys, strict=True)
        if keys[0] >= draft.first_kept
    ]
    talk.user("NEW-REQUEST: and the tests")
    talk.step("n1", "NEW-RESULT " + "word " * 50)
    before = list(talk.window.messages)
    outcome = finish(talk.inputs(), draft, summary)
    assert isinstance(outcome, Compacted)
    commit(talk, outcome)
    first, *rest = talk.window.messages
    assert rest == before[-len(rest) :]
    assert rest[: len(kept)] == kept
    assert len(rest) == len(kept) + 3
    # The record is the present branch's: the request that is worked on now is the new one.
    assert "request in progress" not in str(first)
    assert outcome.compaction.tokens_after == talk.meter.used().tokens


async def test_K10_a_request_that_was_answered_meanwhile_is_no_longer_in_progress() -> None:
    talk = Talk()
    talk.user("OLD-REQUEST")
    for step in range(14):
        talk.step(f"c{step}", "word " * 250)
    draft = drafted(talk.inputs())
    assert "in progress, word for word" in finished(talk.inputs(), draft).compaction.text
    talk.reply("finished")
    talk.user("NEW-REQUEST")
    text = finished(talk.inputs(), draft).compaction.text
    assert "in progress, word for word" not in text
    assert "OLD-REQUEST" in text


def _rewound(talk: Talk, draft: Draft) -> None:
    entry = talk.transcript.append(Rewind(), 0, parent=draft.first_kept)
    talk.window = Window(talk.branch)
    talk.meter.apply(entry, talk.window, broke=True)


BROKEN: list[tuple[Payload, str]] = [
    (Clearing((ClearedItem(5, "[cleared]"),), "budget"), "was changed"),
    (Drop((3,)), "was changed"),
    (Setting(model="other"), "was changed"),
]


@pytest.mark.parametrize(("payload", "word"), BROKEN)
async def test_K10_what_broke_the_prefix_since_discards_the_summary(payload: Payload, word: str) -> None:
    talk = full(turns=10)
    draft = drafted(talk.inputs())
    talk.append(payload)
    outcome = finish(talk.inputs(), draft, Summary(SUMMARY, usage=Usage(7, 0, 0, 1)))
    assert isinstance(outcome, NotCompacted)
    assert word in outcome.reason
    assert not outcome.failed  # nobody's fault: the guard does not count it
    assert outcome.usage == Usage(7, 0, 0, 1)


async def test_K10_a_base_that_left_the_branch_discards_the_summary() -> None:
    talk = full(turns=10)
    draft = drafted(talk.inputs())
    _rewound(talk, draft)
    outcome = finish(talk.inputs(), draft, Summary(SUMMARY))
    assert isinstance(outcome, NotCompacted)
    assert "not part of the conversation any more" in outcome.reason


async def test_from_here_is_discarded_if_the_conversation_went_on_and_not_for_a_pin() -> None:
    talk = full(turns=10)
    inputs = replace(talk.inputs("manual", window=100_000), span=Span(first_replaced=30))
    draft = drafted(inputs)
    talk.append(Pin((3,)))
    assert finish(inputs, draft, Summary(SUMMARY)).__class__ is Compacted
    talk.user("one more thing")
    outcome = finish(inputs, draft, Summary(SUMMARY))
    assert isinstance(outcome, NotCompacted)
    assert "went on" in outcome.reason


@settings(max_examples=15, deadline=None)
@given(st.lists(st.sampled_from(["user", "step", "reply", "pin", "reminder"]), max_size=8))
def test_K10_invariant_4_any_growth_leaves_pairs_words_and_tail_whole(growth: list[str]) -> None:
    talk = full(turns=10)
    draft = drafted(talk.inputs())
    for number, kind in enumerate(growth):
        match kind:
            case "user":
                talk.user(f"LATER-{number}")
            case "step":
                talk.step(f"late{number}", "word " * 20)
            case "reply":
                talk.reply(f"later reply {number}")
            case "pin":
                talk.append(Pin((4,)))
            case _:
                talk.append(Reminder("date", f"It is day {number}."))
    commit(talk, finished(talk.inputs(), draft))
    assert calls(talk.window.messages) == results(talk.window.messages)
    shown = texts(talk.window)
    assert all(f"USER-{turn} please" in shown for turn in range(10))
    assert all(f"LATER-{n}" in shown for n, kind in enumerate(growth) if kind == "user")


# --------------------------------------------------------------------------- what is added


def test_an_edited_summary_takes_the_place_of_the_models() -> None:
    talk = full()
    outcome = finished(talk.inputs(), drafted(talk.inputs()), "MY OWN WORDS")
    assert outcome.compaction.summary == "MY OWN WORDS"
    assert "MY OWN WORDS" in outcome.compaction.text
    blank = finish(talk.inputs(), drafted(talk.inputs()), Summary(" \n"))
    assert isinstance(blank, NotCompacted)
    assert blank.reason == "the summary is empty; nothing was changed"


def test_ticked_losses_are_kept_word_for_word() -> None:
    talk = full()
    ticked = ("port 40712", "Error: <reminder>`x`\n  at line 3", "x " * 300)
    text = finished(talk.inputs(), drafted(talk.inputs()), keep=ticked).compaction.text
    assert "## Kept word for word" in text
    assert all(item in text for item in ticked)


def test_every_changed_file_and_open_todo_is_there_though_the_summary_names_none() -> None:
    talk = Talk()
    talk.user("go")
    for n in range(60):
        talk.reply("edit", (f"e{n}",))
        fact = FileFact(f"/project/src/module_{n}.py", SHA, change="edited")
        talk.result(f"e{n}", "word " * 120, "edit", (fact,))
    todos = tuple(f"[ ] open thing number {n}" for n in range(25))
    inputs = replace(talk.inputs(window=32_768), todos=todos, plan="PLAN-TEXT", jobs=("job 3: npm run dev",))
    outcome = finished(inputs, drafted(replace(inputs, trigger="manual")), "ok")
    text = outcome.compaction.text
    kept = [e for e in talk.branch if e.key < outcome.compaction.first_kept and isinstance(e.payload, Result)]
    assert len(kept) > 40
    assert all(f"module_{n}.py" in text for n in range(len(kept)))
    assert all(todo in text for todo in todos)
    assert "PLAN-TEXT" in text
    assert "job 3: npm run dev" in text


def test_K13_files_are_attached_in_the_same_transaction_and_name_the_compaction() -> None:
    talk = full(turns=40)
    files = [Attachment("file", f"/p/f{n}.py", f"1\tTEXT-{n} " + "\n2\tword" * 30) for n in range(7)]
    inputs = replace(talk.inputs(window=32_768, trigger="manual"), attachments=files)
    outcome = finished(inputs, drafted(inputs))
    assert [type(payload) for payload in outcome.payloads[1:]] == [Reminder] * 5
    entry = commit(talk, outcome)
    assert all(reminder.of == entry.key for reminder in outcome.reminders)
    first = talk.window.messages[0]
    assert [f"TEXT-{n}" in str(first) for n in range(7)] == [True] * 5 + [False] * 2
    assert str(first).index("# Summary of the work") < str(first).index("TEXT-0") < str(first).index("TEXT-4")
    assert outcome.compaction.tokens_after == talk.meter.used().tokens
    talk.append(User((TextBlock("go on"),)))
    assert talk.window.messages[0] == first


@pytest.mark.parametrize("window", [8_192, 32_768, 200_000])
def test_K13_what_is_attached_stays_under_65_percent_of_the_room_and_frees_enough(window: int) -> None:
    talk = Talk()
    inputs = talk.inputs(window=window)
    while talk.meter.used().tokens < inputs.thresholds.trigger:
        full(talk, turns=5, words=800)
    files = [
        Attachment("file", f"/p/f{n}.py", "\n".join(f"{line}\tword word" for line in range(9_000))) for n in range(5)
    ]
    inputs = replace(talk.inputs(window=window), attachments=files)
    before = talk.meter.used().tokens
    outcome = finished(inputs, drafted(inputs))
    commit(talk, outcome)
    after, floor = talk.meter.used().tokens, outcome.floor_tokens
    room = inputs.thresholds.trigger - floor
    assert after - floor <= 0.65 * room + 1
    assert (before - after) * 5 >= before - floor  # never a poor one because of what was attached
    assert sum(talk.meter.count(reminder.text) for reminder in outcome.reminders) <= 50_000
    assert all(talk.meter.count(reminder.text) <= 5_000 for reminder in outcome.reminders)
    assert window < 200_000 or len(outcome.reminders) == 5


def test_K13_a_file_that_stands_whole_in_the_tail_by_now_is_not_attached() -> None:
    talk = full(turns=10)
    draft = drafted(talk.inputs())
    talk.user("look again")
    talk.reply("", ("late",))
    fact = FileFact("/p/a.py", SHA, ((1, 2),), whole=True)
    talk.append(Result("late", "read", (TextBlock("1\tone\n2\ttwo"),), files=(fact,)))
    inputs = replace(talk.inputs(), attachments=[Attachment("file", "/p/a.py", "1\tone\n2\ttwo")])
    assert finished(inputs, draft).reminders == ()


async def test_pins_stand_behind_the_summary_and_are_named_in_the_record() -> None:
    talk = full(turns=10)
    pin = talk.append(Pin((5,)))
    outcome = await compacted(talk.inputs())
    assert [item.pin for item in outcome.compaction.pinned] == [pin.key]
    assert f"What the user pinned (entry {pin.key}) stands word for word behind this text." in outcome.compaction.text
    text = outcome.compaction.pinned[0].text
    for round_ in range(3):
        commit(talk, outcome)
        assert texts(talk.window).count(text) == 1
        full(talk, turns=10)
        outcome = await compacted(talk.inputs(), Model(f"summary {round_}"))
        assert outcome.compaction.pinned[0].text == text


async def test_the_order_of_the_transaction_does_not_change_what_the_next_steps_see() -> None:
    talk = full()
    outcome = await compacted(talk.inputs(), Model(Reply(SUMMARY, False, "end_turn", Usage(9, 0, 0, 1), 0.1)))
    assert (outcome.usage, outcome.cost_usd) == (Usage(9, 0, 0, 1), 0.1)
    assert outcome.floor_tokens == talk.meter.floor_tokens
