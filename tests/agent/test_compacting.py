"""The flow of a compaction through a whole session: drafts and losses, what is attached again, hooks, costs, guards, undo."""

import asyncio
import threading
from typing import Any

import pytest
from PIL import Image

from agent.compacting import CompactionDraft, CompactionPreview
from agent.config.layers import load_config
from agent.config.paths import Paths
from agent.config.schema import HooksConfig
from agent.context.compaction_values import NotCompacted, Span
from agent.events import CompactionFinished, CompactionProgress, CompactionStarted, StepStarted
from agent.retry import RetryPolicy
from agent.transcript import Compaction, Entry, Prefix, Reminder, Undo, User
from tests.agent.test_session_compaction import SUMMARY, fill, small, words
from tests.fakes.model_server import json_reply
from tests.fakes.session_kit import Desk

LARGE = {"CLAW_AUTOCOMPACT_PCT": "95"}
QUICK = RetryPolicy(max_attempts=2, base_delay_s=0.001)


def configure(desk: Desk, text: str) -> None:
    with (desk.home / "config" / "config.toml").open("a") as file:
        file.write(text)


def told(desk: Desk, body: Any) -> str:
    return "\n".join(desk.wire.texts(body))


# --------------------------------------------------------------------------- looked at first


async def test_a_preview_says_what_would_go_and_asks_nobody(one_desk: Desk) -> None:
    async with small(one_desk, **LARGE).open() as talk:
        await fill(one_desk, talk, 5)
        used = talk.session.gauge().used_tokens
        preview = talk.session.preview_compaction()
        assert isinstance(preview, CompactionPreview)
        assert preview.messages == 10 - 4
        assert 0 < preview.replaced_tokens < preview.tokens_before == used
        assert preview.cost.calls == 1 and preview.cost.input_tokens > preview.replaced_tokens
        assert 0 < preview.cost.input_tokens * 3e-6 < (preview.cost.cost_usd or 0) < 0.1
        assert talk.of(CompactionStarted) == []
    assert len(one_desk.bodies()) == 5


async def test_a_preview_of_nothing_says_why(one_desk: Desk) -> None:
    async with one_desk.open() as talk:
        one_desk.wire.reply("Hi.")
        await talk.session.prompt("hi")
        preview = talk.session.preview_compaction()
        assert isinstance(preview, NotCompacted) and "nothing to compact" in preview.reason


async def test_a_draft_changes_nothing_and_names_what_would_be_lost_and_ticked_losses_are_kept(desk: Desk) -> None:
    async with small(desk, **LARGE).open() as talk:
        desk.wire.reply(f"The port is 48,117 and the file is `src/deep/odd_name.py`. {words('answer-', 200)}")
        await talk.session.prompt("look around")
        await fill(desk, talk)
        before = talk.session.gauge().used_tokens
        entries = len(desk.entries())
        desk.wire.reply(SUMMARY)
        draft = await talk.session.draft_compaction("the port")
        assert isinstance(draft, CompactionDraft)
        assert "the port" in desk.wire.texts(desk.bodies()[-1])[-1]
        assert draft.tokens_before == before > draft.tokens_after and draft.cost_usd
        assert talk.session.gauge().used_tokens == before and len(desk.entries()) == entries
        assert talk.of(CompactionStarted) == []
        lost = {loss.text: loss for loss in draft.losses}
        assert lost["48,117"].kind == "number" and lost["src/deep/odd_name.py"].kind == "path"
        kept = [lost["48,117"]]
        finished = talk.session.accept_compaction(draft, SUMMARY.replace("parser", "lexer"), kept)
        assert finished.key is not None and finished.tokens_after < before
        desk.wire.reply("Here.")
        await talk.session.prompt("and now?")
    text = told(desk, desk.bodies()[-1])
    assert "48,117" in text and "odd_name" not in text and "the lexer." in text and "the parser." not in text
    assert desk.payloads(Compaction)[0].focus == "the port"


async def test_a_draft_can_be_accepted_after_more_talk_and_not_after_another_compaction(one_desk: Desk) -> None:
    desk = one_desk
    async with small(desk, **LARGE).open() as talk:
        await fill(desk, talk)
        desk.wire.reply(SUMMARY)
        draft = await talk.session.draft_compaction()
        assert isinstance(draft, CompactionDraft)
        desk.wire.reply("later answer")
        await talk.session.prompt("later question")
        assert talk.session.accept_compaction(draft).key is not None
        desk.wire.reply("Here.")
        await talk.session.prompt("and now?")
        texts = desk.wire.texts(desk.bodies()[-1])
        assert texts.count("later question") == 1
        again = talk.session.accept_compaction(draft)
        assert again.key is None and "cannot be used" in again.message
    assert len(desk.payloads(Compaction)) == 1


@pytest.mark.parametrize("summary", [" ", words("more-", 6000)])
async def test_an_edited_summary_is_checked_like_a_written_one(one_desk: Desk, summary: str) -> None:
    async with small(one_desk, **LARGE).open() as talk:
        await fill(one_desk, talk)
        one_desk.wire.reply(SUMMARY)
        draft = await talk.session.draft_compaction()
        assert isinstance(draft, CompactionDraft)
        refused = talk.session.accept_compaction(draft, summary)
        assert refused.key is None and "nothing was changed" in refused.message
        assert talk.session.accept_compaction(draft).key is not None


async def test_a_draft_is_cancelled_by_interrupt(one_desk: Desk) -> None:
    async with small(one_desk, **LARGE).open() as talk:
        await fill(one_desk, talk)
        one_desk.wire.unfinished("## Goal")
        drafting = asyncio.ensure_future(talk.session.draft_compaction())
        await talk.requested(5)
        talk.session.interrupt()
        outcome = await drafting
        assert isinstance(outcome, NotCompacted) and "cancelled" in outcome.reason
        entries = len(one_desk.entries())
        one_desk.wire.reply(SUMMARY)
        assert (await talk.session.compact()).key == entries + 1


@pytest.mark.parametrize("which", ["from", "up to"])
async def test_a_span_replaces_what_was_pointed_at(desk: Desk, which: str) -> None:
    async with small(desk, **LARGE).open() as talk:
        await fill(desk, talk)
        third = [entry for entry in desk.entries() if isinstance(entry.payload, User)][2].key
        span = Span(first_replaced=third) if which == "from" else Span(first_kept=third)
        desk.wire.reply(SUMMARY)
        assert (await talk.session.compact(span=span)).key is not None
        desk.wire.reply("Here.")
        await talk.session.prompt("and now?")
    text = told(desk, desk.bodies()[-1])
    assistant = str([block for role, block in desk.last_flat() if role == "assistant"])
    kept, gone = ("answer0-7", "answer3-7") if which == "from" else ("answer3-7", "answer0-7")
    assert kept in assistant and gone not in assistant and "Goal of the work" in text


# --------------------------------------------------------------------------- K13 and the transaction


def _after(entries: list[Entry], kind: type) -> list[Any]:
    place = next(n for n, entry in enumerate(entries) if isinstance(entry.payload, Compaction))
    return [entry.payload for entry in entries[place:] if isinstance(entry.payload, kind)]


async def test_K13_files_come_back_with_the_compaction_and_a_fresh_prefix_last_in_one_transaction(desk: Desk) -> None:
    (desk.project / "notes.txt").write_text("the first line\nMARKER of the file\n")
    (desk.project / "secret.txt").write_text("the SECRET itself\n")
    (desk.project / "CLAUDE.md").write_text("Old rules.\n")
    async with small(desk, **LARGE).open() as talk:
        desk.wire.reply(tools=[("read", {"path": "notes.txt"}), ("read", {"path": "secret.txt"})])
        desk.wire.reply("Read.")
        await talk.session.prompt("read them")
        await fill(desk, talk)
        (desk.project / "CLAUDE.md").write_text("New rules.\n")
    configure(desk, '[permissions]\ndeny = ["read(secret.txt)"]\n')
    async with desk.open(talk.path) as later:
        desk.wire.reply(SUMMARY)
        finished = await later.session.compact()
        assert finished.key is not None
        entries = desk.entries()
        place = next(n for n, entry in enumerate(entries) if entry.key == finished.key)
        kinds = [type(entry.payload) for entry in entries[place:]]
        assert kinds[0] is Compaction and set(kinds[1:-1]) == {Reminder} and kinds[-1] is Prefix
        reminders = _after(entries, Reminder)
        assert all(reminder.of == finished.key for reminder in reminders)
        assert any("MARKER of the file" in reminder.text for reminder in reminders)
        assert not any("SECRET" in reminder.text for reminder in reminders)
        assert "New rules." in str(_after(entries, Prefix)[0].sections)
        desk.wire.reply("Here.")
        await later.session.prompt("and now?")
    assert "MARKER of the file" in told(desk, desk.bodies()[-1])


async def test_K13_a_prefix_whose_text_is_unchanged_is_appended_too(one_desk: Desk) -> None:
    async with small(one_desk, **LARGE).open() as talk:
        await fill(one_desk, talk)
        one_desk.wire.reply(SUMMARY)
        assert (await talk.session.compact()).key is not None
    first, second = one_desk.payloads(Prefix)
    assert first == second


# --------------------------------------------------------------------------- hooks


def hooked(desk: Desk, before: str = "", after: str = "") -> Desk:
    lines = [f"{name} = [{line!r}]" for name, line in (("PreCompact", before), ("PostCompact", after)) if line]
    configure(desk, "[hooks]\n" + "\n".join(lines) + "\n")
    return desk


async def test_C4b_hooks_run_around_a_compaction(desk: Desk) -> None:
    hooked(small(desk, **LARGE), "cat >before.json; echo the printer", "cat >after.json")
    async with desk.open() as talk:
        await fill(desk, talk)
        desk.wire.reply(SUMMARY)
        finished = await talk.session.compact("the parser")
        assert finished.key is not None
    ask = desk.wire.texts(desk.bodies()[-1])[-1]
    assert "the parser" in ask and "the printer" in ask
    assert f'"tokens": {finished.tokens_before}' in (desk.project / "before.json").read_text()
    assert f'"tokens": {finished.tokens_after}' in (desk.project / "after.json").read_text()


async def test_C4b_an_accepted_draft_is_told_too(one_desk: Desk) -> None:
    desk = hooked(small(one_desk, **LARGE), after="cat >after.part; mv after.part after.json")
    async with desk.open() as talk:
        await fill(desk, talk)
        desk.wire.reply(SUMMARY)
        draft = await talk.session.draft_compaction()
        assert isinstance(draft, CompactionDraft)
        assert not (desk.project / "after.json").exists()
        finished = talk.session.accept_compaction(draft)
        while not (desk.project / "after.json").exists():  # noqa: ASYNC110  # another process makes it
            await asyncio.sleep(0.01)
    assert f'"tokens": {finished.tokens_after}' in (desk.project / "after.json").read_text()


async def test_C4b_esc_in_a_hook_behind_a_compaction_by_hand_ends_the_hook_and_tells_what_was_done(
    one_desk: Desk,
) -> None:
    desk = hooked(small(one_desk, **LARGE), after="touch started; sleep 60; touch ended")
    async with desk.open() as talk:
        await fill(desk, talk)
        desk.wire.reply(SUMMARY)
        compacting = asyncio.ensure_future(talk.session.compact())
        while not (desk.project / "started").exists():  # noqa: ASYNC110  # another process makes it
            await asyncio.sleep(0.01)
        talk.session.interrupt()
        finished = await compacting
        assert finished.key is not None and talk.of(CompactionFinished) == [finished]
    assert not (desk.project / "ended").exists() and len(desk.payloads(Compaction)) == 1


async def test_C4b_a_refusal_changes_nothing_and_automatic_ones_stop_asking_the_hook(one_desk: Desk) -> None:
    hooked(small(one_desk), "echo ran >>runs; echo 'not in this session' >&2; exit 2")
    async with one_desk.open() as talk:
        await fill(one_desk, talk)
        one_desk.wire.otherwise(lambda body: "Yes.")
        for _ in range(5):
            assert (await talk.session.prompt(words("more-", 200))).reason == "done"
        messages = [event.message for event in talk.of(CompactionFinished)]
        assert len(messages) == 3 and all("not in this session" in message for message in messages)
        assert (one_desk.project / "runs").read_text() == "ran\n" * 3
        assert (await talk.session.compact()).key is None
    assert not any(map(one_desk.wire.is_summary, one_desk.bodies()))


def test_C4b_hooks_of_a_project_are_ignored(one_desk: Desk) -> None:
    (one_desk.project / ".claw").mkdir()
    (one_desk.project / ".claw" / "config.toml").write_text('[hooks]\nPreCompact = ["touch ran"]\n')
    paths = Paths.from_env(one_desk.env)
    loaded = load_config(paths, one_desk.project, one_desk.env)
    assert loaded.config.hooks == HooksConfig()
    assert any("hooks.PreCompact: ignored" in str(problem) for problem in loaded.problems)


# --------------------------------------------------------------------------- costs and events


async def test_what_calls_in_vain_cost_is_told_at_once_and_recorded_with_the_next_compaction(desk: Desk) -> None:
    async with small(desk, **LARGE).open(retry_policy=QUICK) as talk:
        await fill(desk, talk)
        cost = talk.session.gauge().cost_usd or 0.0
        desk.wire.reply(" ")
        failed = await talk.session.compact()
        assert failed.key is None and failed.cost_usd and failed.usage.reported
        after = talk.session.gauge().cost_usd or 0.0
        assert after == pytest.approx(cost + failed.cost_usd)
        desk.wire.reply(SUMMARY)
        finished = await talk.session.compact()
        assert finished.cost_usd
        recorded = desk.payloads(Compaction)[0]
        assert recorded.cost_usd == pytest.approx(failed.cost_usd + finished.cost_usd)
        assert recorded.usage == failed.usage + finished.usage
        total = talk.session.gauge().cost_usd
    async with desk.open(talk.path) as later:
        assert later.session.gauge().cost_usd == pytest.approx(total)


async def test_progress_is_told_between_start_and_end(one_desk: Desk) -> None:
    async with small(one_desk, **LARGE).open() as talk:
        await fill(one_desk, talk)
        one_desk.wire.reply(SUMMARY)
        await talk.session.compact()
        kinds = [
            type(e) for e in talk.events if isinstance(e, CompactionStarted | CompactionProgress | CompactionFinished)
        ]
        assert kinds[0] is CompactionStarted and kinds[-1] is CompactionFinished
        assert talk.of(CompactionProgress)[-1] == CompactionProgress(1, 1)


async def test_another_model_can_write_the_summaries(one_desk: Desk) -> None:
    desk = small(one_desk, **LARGE)
    async with desk.open(config=(f"context.summary_model={desk.wire.provider}/gpt-small",)) as talk:
        await fill(desk, talk)
        desk.wire.reply(SUMMARY)
        assert (await talk.session.compact()).key is not None
        desk.wire.reply("Here.")
        await talk.session.prompt("and now?")
    summary, after = desk.bodies()[-2:]
    assert summary["model"] == "gpt-small" and "tools" not in summary and after["model"] == desk.wire.model


async def test_a_model_for_summaries_that_cannot_be_used_is_told_once_and_replaced(one_desk: Desk) -> None:
    desk = small(one_desk, **LARGE)
    async with desk.open(config=("context.summary_model=anthropic/x",)) as talk:
        await fill(desk, talk)
        desk.wire.reply(SUMMARY)
        assert (await talk.session.compact()).key is not None
        assert sum("context.summary_model" in text for text in talk.notices) == 1
    assert desk.bodies()[-1]["model"] == desk.wire.model


# --------------------------------------------------------------------------- cancelled anywhere


@pytest.mark.parametrize("where", ["hook", "call", "retry"])
async def test_T88_a_cancelled_compaction_in_a_turn_changes_nothing_wherever_it_is(desk: Desk, where: str) -> None:
    desk = small(desk)
    if where == "hook":
        hooked(desk, "touch started; sleep 60")
    async with desk.open(retry_policy=RetryPolicy(base_delay_s=60.0)) as talk:
        await fill(desk, talk)
        release = threading.Event()
        if where == "call":
            desk.wire.reply(SUMMARY, after=release)
        elif where == "retry":
            desk.wire.overloaded()
        prompting = asyncio.ensure_future(talk.session.prompt(words("request-", 800)))
        await talk.seen(CompactionStarted)
        if where == "hook":
            while not (desk.project / "started").exists():  # noqa: ASYNC110  # another process makes it
                await asyncio.sleep(0.01)
        else:
            await talk.requested(5)
        talk.session.interrupt()
        release.set()
        assert (await prompting).reason == "interrupted"
        assert [event.key for event in talk.of(CompactionFinished)] == [None]
        assert desk.payloads(Compaction) == []
    desk.env.update(LARGE)
    async with desk.open(talk.path) as later:
        desk.wire.reply("Here.")
        assert (await later.session.prompt("again")).reason == "done"
    assert "answer0-7" in str(desk.last_flat())


# --------------------------------------------------------------------------- guards and undo


async def test_K7_compacting_by_hand_starts_the_breaker_anew(one_desk: Desk) -> None:
    desk = small(one_desk)
    async with desk.open() as talk:
        await fill(desk, talk)
        desk.wire.otherwise(lambda body: " " if desk.wire.is_summary(body) else "Yes.")
        for _ in range(6):
            await talk.session.prompt(words("more-", 250))
        assert len(talk.of(CompactionFinished)) == 3
        desk.wire.reply(" ")
        await talk.session.compact()
        await talk.session.prompt("and now?")
        assert [event.trigger for event in talk.of(CompactionStarted)] == ["auto"] * 3 + ["manual", "auto"]


async def test_K14_after_the_undo_of_an_automatic_one_none_runs_before_the_blocking_limit(one_desk: Desk) -> None:
    desk = small(one_desk, CLAW_BLOCKING_LIMIT="9000")
    async with desk.open() as talk:
        await fill(desk, talk, 5)
        desk.wire.otherwise(lambda body: SUMMARY if desk.wire.is_summary(body) else "Yes.")
        await talk.session.prompt(words("request-", 300))
        assert len(talk.of(CompactionFinished)) == 1
        assert "undone" in await talk.session.undo_compaction()
        used = talk.session.gauge().used_tokens
        assert used >= 5_440
        await talk.session.prompt("short")
        assert len(talk.of(CompactionFinished)) == 1
    async with desk.open(talk.path) as later:
        await later.session.prompt("short")
        assert later.of(CompactionFinished) == []
        while not later.of(CompactionFinished):
            await later.session.prompt(words("more-", 300))
        assert later.of(CompactionFinished)[0].tokens_before >= 9_000
    assert len(desk.payloads(Undo)) == 1


async def test_an_undo_says_whether_the_result_fits(one_desk: Desk) -> None:
    desk = small(one_desk, **LARGE)
    async with desk.open() as talk:
        await fill(desk, talk)
        desk.wire.reply(SUMMARY)
        assert (await talk.session.compact()).key is not None
    desk.env["CLAW_BLOCKING_LIMIT"] = "4000"
    async with desk.open(talk.path) as later:
        assert "too much for the next request" in await later.session.undo_compaction()
    desk.env["CLAW_BLOCKING_LIMIT"] = "14000"
    async with desk.open(talk.path) as last:
        assert await last.session.undo_compaction() == "There is no compaction to undo."


async def test_T87_two_overflows_in_one_turn_are_each_handled_once(desk: Desk) -> None:
    (desk.project / "a.txt").write_text("x\n")
    async with desk.open() as talk:
        await fill(desk, talk)
        desk.wire.overflow()
        desk.wire.reply(SUMMARY)
        for _ in range(4):
            desk.wire.reply(words("thought-", 150), tools=[("read", {"path": "a.txt"})])
        desk.wire.overflow()
        desk.wire.reply(SUMMARY)
        desk.wire.reply("Made it.")
        assert (await talk.session.prompt(words("request-", 100))).reason == "done"
        assert [event.trigger for event in talk.of(CompactionStarted)] == ["overflow", "overflow"]
        assert len(talk.of(StepStarted)) == 4 + 1 + 4 + 1 + 1
    assert len(desk.payloads(Compaction)) == 2


async def test_three_refills_in_a_row_stop_it_with_advice(one_desk: Desk) -> None:
    """Something in each step fills the window again right after it was compacted."""
    desk = small(one_desk, CLAW_BLOCKING_LIMIT="15000")
    (desk.project / "big.txt").write_text("\n".join(words(f"line{n}-", 12) for n in range(75)))
    async with desk.open() as talk:
        await fill(desk, talk, 4)
        desk.wire.otherwise(lambda body: SUMMARY if desk.wire.is_summary(body) else "Yes.")
        for turn in range(9):
            await talk.session.prompt(words(f"again{turn}-", 480))
        done = [event for event in talk.of(CompactionFinished) if event.key is not None]
        assert any("full again right after" in text for text in talk.notices), talk.notices
        assert len(done) == 4


# --------------------------------------------------------------------------- what is refused for its size in bytes


@pytest.mark.parametrize("stays", [False, True])
async def test_an_image_that_the_provider_refuses_is_taken_out_and_the_request_sent_once_more(
    desk: Desk, stays: bool
) -> None:
    Image.new("RGB", (64, 64), "red").save(desk.project / "red.png")
    async with desk.open(config=(f'models."{desk.wire.model}".images=true',)) as talk:
        desk.wire.reply(tools=[("read", {"path": "red.png"})])
        for _ in range(1 + stays):
            refuse_size(desk)
        desk.wire.reply("I see.")
        ended = await talk.session.prompt("look")
        assert ended.reason == ("context_full" if stays else "done")
        assert sum("too large" in text for text in talk.notices) == 1
        if stays:
            desk.wire.server.forget(desk.wire.requests[0].path)
            desk.wire.reply("Here.")
            assert (await talk.session.prompt("and now?")).reason == "done"
    bodies = desk.bodies()
    assert len(bodies) == 3 + stays
    assert "image/png;base64" in str(bodies[1]) or "'image/png', 'data'" in str(bodies[1])
    assert "An image was here" in str(bodies[2]) and "red.png" in str(bodies[2])
    assert not any("base64" in str(body) for body in bodies[2:])


def refuse_size(desk: Desk) -> None:
    error = {"type": "request_too_large", "code": None, "param": None, "message": "image exceeds 5 MB maximum"}
    body = {"type": "error", "error": error}
    desk.wire.server.queue(
        desk.wire.requests[0].path if desk.wire.requests else PATHS.get(desk.wire.provider, "/v1/chat/completions"),
        json_reply(body, 413),
    )


PATHS = {"anthropic": "/v1/messages", "openai": "/v1/responses"}
