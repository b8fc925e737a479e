import time
from collections.abc import Iterator

import pytest

from agent.recall import Hit, OtherSession, Recall
from agent.store.base import Blob
from agent.transcript import Assistant, Compaction, Entry, Payload, Reminder, Result, Rewind, Spill, Transcript, User
from providers.types import TextBlock, ToolCall, Usage
from tests.fakes.session_kit import Desk


def user(text: str) -> User:
    return User((TextBlock(text),))


def reply(*blocks: TextBlock | ToolCall) -> Assistant:
    return Assistant(blocks, "p", "m", "anthropic", "m", None, Usage(1), "end_turn")


def result(text: str, title: str = "", spill: Spill | None = None) -> Result:
    return Result("c", "bash", (TextBlock(text),), title=title, spill=spill)


def of(*payloads: Payload) -> Transcript:
    transcript = Transcript()
    for payload in payloads:
        transcript.append(payload, 1_000)
    return transcript


def no_blob(sha256: str) -> bytes:
    raise KeyError(sha256)


def keys(hits: list[Hit]) -> list[int]:
    return [hit.key for hit in hits]


def test_everything_said_and_done_is_found_and_nothing_that_claw_repeats() -> None:
    transcript = of(
        user("the port must be 8123"),
        reply(TextBlock("I will use port 8123."), ToolCall("c", "bash", '{"command": "serve --port 8123"}')),
        result("listening on 8123", "serve"),
        Reminder("date", "8123 is no year"),
        User((TextBlock("go on with 8123"),), synthetic=True),
        Compaction("record with 8123", "the port is 8123", 4, "auto", 9, 3),
    )
    hits = Recall(transcript, no_blob).search("8123")
    assert keys(hits) == [6, 3, 2, 1]
    assert hits[1].name == "bash" and hits[3].kind == "user"


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("ERROR in parse", [2]),  # the phrase beats the words, whatever their case
        ("parse error", [2, 1]),  # all words, in any order
        ('"in parse" error', [2]),  # quoted words stay together
        ("parse error unknownword", [2, 1]),  # most of the words
        ("unknownword", []),
        ("   ", []),
        ("天气", [3]),
        ("100%_", [4]),  # nothing in a query is a pattern
    ],
)
def test_words_phrases_and_what_is_no_pattern(words: str, found: list[int]) -> None:
    transcript = of(
        user("an error while we parse"), user("Error in parse()"), user("今天天气很好"), user("100%_ done. 100 done")
    )
    assert keys(Recall(transcript, no_blob).search(words)) == found


def test_an_excerpt_is_one_line_around_the_place_and_the_whole_entry_can_be_had() -> None:
    text = "a\n" * 5_000 + "the needle\nlies here" + "\nb" * 5_000
    recall = Recall(of(user(text)), no_blob)
    (hit,) = recall.search("needle")
    assert "the needle lies here" in hit.excerpt and "\n" not in hit.excerpt and len(hit.excerpt) < 400
    assert recall.entry(1) == text and recall.entry(2) is None


def test_new_entries_abandoned_branches_and_spilled_outputs_are_searched() -> None:
    whole = Blob.of(b"line\n" * 1_000 + b"the lost detail\n")
    transcript = of(user("one"), result("head … tail", spill=Spill(whole.sha256, len(whole.data))))
    recall = Recall(transcript, {whole.sha256: whole.data}.__getitem__)
    assert recall.search("blue") == []
    transcript.append(user("the sky is blue"), 0)
    transcript.append(Rewind(), 0, parent=1)
    transcript.append(user("the sea is blue"), 0)
    assert keys(recall.search("is blue")) == [5, 3]
    assert keys(recall.search("lost detail")) == [2]
    assert recall.entry(2) == whole.data.decode()
    assert "head" in (Recall(transcript, no_blob).entry(2) or "")


def test_other_sessions_are_read_one_by_one_until_there_is_enough() -> None:
    read: list[str] = []

    def others() -> Iterator[OtherSession]:
        for id_ in ("s1", "s2", "s3"):
            read.append(id_)
            yield OtherSession(id_, (Entry(1, None, 5, user(f"a needle in {id_}")),))

    recall = Recall(of(user("needle")), no_blob, others)
    assert [(hit.session, hit.key) for hit in recall.search_project("needle", 2)] == [("s1", 1), ("s2", 1)]
    assert read == ["s1", "s2", "s3"]
    assert recall.entry(1, "s3") == "a needle in s3" and recall.entry(2, "s3") is None and recall.entry(1, "s4") is None


def test_a_search_of_a_million_tokens_takes_a_moment() -> None:
    transcript = of(*(user(f"entry {number} " + "some words of no interest " * 15) for number in range(10_000)))
    recall = Recall(transcript, no_blob)
    recall.search("warm up")
    started = time.process_time()
    assert keys(recall.search("entry 4711 some")) == [4712]
    assert time.process_time() - started < 1


async def test_the_model_finds_what_a_compaction_removed(desk: Desk) -> None:
    (desk.project / "a.txt").write_text("the secret number is 990077\n")
    wire = desk.wire
    wire.reply(tools=[("read", {"path": "a.txt"})])
    wire.reply("Read it.")
    wire.reply("noted")
    wire.reply("ok")
    wire.reply(tools=[("recall", {"query": "secret number"}), ("recall", {"entry": 5}), ("recall", {"entry": "no. 4"})])
    wire.reply(tools=[("recall", {}), ("recall", {"entry": 99}), ("recall", {"query": "nowhere to be found"})])
    wire.reply("990077")
    async with desk.open() as talk:
        await talk.session.prompt("read a.txt")
        await talk.session.prompt("and remember it")
        await talk.session.prompt("and wait")
        ended = await talk.session.prompt("what was the number?")
        assert ended.reason == "done"
        assert [hit.key for hit in talk.session.search("990077")][-1:] == [6]
    texts = recalled(desk)
    assert "990077" in texts[0] and "[entry" in texts[0]
    assert "read" in texts[1]
    assert "is no entry" in texts[2] and "needs `query`" in texts[3] and "no entry 99" in texts[4]
    assert texts[5].startswith("Nothing in this session")


def recalled(desk: Desk) -> list[str]:
    return [text_of(payload) for payload in desk.payloads(Result) if payload.tool == "recall"]


def text_of(payload: Result) -> str:
    return "\n".join(block.text for block in payload.blocks if isinstance(block, TextBlock))


async def test_other_sessions_of_the_project_are_found_when_asked_for(one_desk: Desk) -> None:
    desk = one_desk
    desk.wire.reply("hello")
    async with desk.open() as talk:
        await talk.session.prompt("remember the word hippopotamus")
        first = talk.session.id
    desk.wire.reply(
        tools=[("recall", {"query": "hippopotamus"}), ("recall", {"query": "hippopotamus", "scope": "project"})]
    )
    desk.wire.reply(tools=[("recall", {"entry": f"{first}#3"})])
    desk.wire.reply("found")
    async with desk.open() as talk:
        await talk.session.prompt("which word was it?")
        second = talk.session.id
    texts = [text_of(p) for p in desk.payloads(Result, second)]
    assert texts[0].startswith("Nothing in this session")
    assert f"[{first}#3]" in texts[1] and "hippopotamus" in texts[2]


def test_forty_details_of_results_and_replies_are_found_after_ten_compactions() -> None:
    transcript = Transcript()
    planted: dict[int, str] = {}
    for number in range(40):
        detail = f"value_{number * 7919} = {number * 104_729}"
        transcript.append(user(f"question {number}"), 0)
        if number % 2:
            entry = transcript.append(reply(TextBlock("I found this. " * 20 + detail + " That is all. " * 20)), 0)
        else:
            transcript.append(reply(ToolCall(f"c{number}", "bash", "{}")), 0)
            entry = transcript.append(result("noise\n" * 50 + detail + "\nnoise" * 50), 0)
        planted[entry.key] = detail
        if number % 4 == 3:
            transcript.append(Compaction("ok", "ok", entry.key + 1, "auto", 9, 3), 0)
    recall = Recall(transcript, no_blob)
    assert [keys(recall.search(detail))[0] for detail in planted.values()] == list(planted)
    for key, detail in planted.items():
        assert detail in (recall.entry(key) or "")
