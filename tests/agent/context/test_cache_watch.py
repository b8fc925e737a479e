from collections.abc import Callable

import pytest
from msgspec.structs import replace

from agent.context.cache_watch import CacheBreak, CacheWatch
from agent.context.pipeline import CACHE_COLD_MS
from agent.transcript import (
    ClearedItem,
    Clearing,
    Compaction,
    Drop,
    Payload,
    Pin,
    Prefix,
    Reminder,
    Rewind,
    Setting,
    Undo,
)
from providers.base import ModelRequest
from providers.models import ModelFacts, Price
from providers.types import (
    AssistantMessage,
    Message,
    PromptSection,
    TextBlock,
    ToolCall,
    ToolResultMessage,
    ToolSpec,
    Usage,
    UserMessage,
    WireApi,
)
from tests.agent.context.talk import Talk

SYSTEM = (PromptSection("identity", "You are claw.", True), PromptSection("instructions", "Be kind.", False))
TOOLS = (ToolSpec("read", "Reads.", {}), ToolSpec("bash", "Runs.", {}))
PRICE = Price(input=3.0, output=15.0, cache_read=0.3, cache_write=3.75)


def facts(provider: str = "p", api: WireApi = "anthropic", price: Price | None = PRICE, model: str = "m") -> ModelFacts:
    return ModelFacts(
        id=model,
        provider=provider,
        api=api,
        family="m",
        context_window_tokens=200_000,
        max_output_tokens=8_192,
        price=price,
    )


def conversation(steps: int) -> list[Message]:
    messages: list[Message] = [UserMessage((TextBlock("go"),))]
    for n in range(steps):
        messages.append(AssistantMessage((TextBlock(f"step {n}"), ToolCall(f"c{n}", "read", "{}"))))
        messages.append(ToolResultMessage(f"c{n}", (TextBlock(f"text {n}"),)))
    return messages


def request(
    messages: list[Message],
    system: tuple[PromptSection, ...] = SYSTEM,
    tools: tuple[ToolSpec, ...] = TOOLS,
    model: str = "m",
    generation: int = 0,
) -> ModelRequest:
    return ModelRequest(model, system, tools, messages, generation, max(0, len(messages) - 1), 4_096)


class Watched:
    """A watch whose server caches everything it is sent."""

    def __init__(self, steps: int = 5) -> None:
        self.watch = CacheWatch()
        self.now_ms = 0
        self.facts = facts()
        self.messages = conversation(steps)
        self.told = self.send(request(self.messages), Usage(0, 0, 50_000, 10))

    def send(
        self, sent: ModelRequest, usage: Usage, keys: tuple[tuple[int, ...], ...] = (), later_ms: int = 1_000
    ) -> CacheBreak | None:
        self.now_ms += later_ms
        self.watch.request(sent, self.now_ms, keys)
        self.told = self.watch.reply(usage, self.facts, self.now_ms)
        return self.told


LOST = Usage(0, 0, 51_000, 10)


def test_the_first_reply_of_a_process_is_compared_with_nothing() -> None:
    assert Watched().told is None


def test_a_prefix_that_was_read_from_the_cache_is_no_break() -> None:
    watched = Watched()
    for _ in range(3):
        watched.messages += conversation(1)[1:]
        assert watched.send(request(watched.messages), Usage(0, 50_000, 1_000, 10)) is None


def test_a_lost_prefix_without_a_change_is_the_providers() -> None:
    told = Watched().send(request(conversation(6)), LOST)
    assert told is not None
    assert (told.cause, told.name, told.missing_tokens) == ("provider", "p", 50_000)
    assert told.cost_usd == pytest.approx(50_000 * (3.75 - 0.3) / 1e6)


@pytest.mark.parametrize(
    ("system", "name"),
    [
        ((SYSTEM[0], PromptSection("instructions", "Be quick.", False)), "instructions"),
        ((PromptSection("identity", "You are else.", True), SYSTEM[1]), "identity"),
        ((PromptSection("identity", "x", True), PromptSection("instructions", "x", False)), "identity"),
        ((*SYSTEM, PromptSection("notes", "new", False)), "notes"),
        (SYSTEM[:1], "instructions"),
        ((SYSTEM[1], SYSTEM[0]), "instructions"),
    ],
)
def test_the_first_section_that_changed_is_named(system: tuple[PromptSection, ...], name: str) -> None:
    told = Watched().send(request(conversation(6), system), LOST)
    assert told is not None
    assert (told.cause, told.name, told.missing_tokens) == ("system", name, 50_000)


@pytest.mark.parametrize(
    ("tools", "name"),
    [
        ((TOOLS[0], ToolSpec("bash", "Runs.", {"type": "object"})), "bash"),
        ((*TOOLS, ToolSpec("recall", "Finds.", {})), "recall"),
        (TOOLS[1:], "bash"),
    ],
)
def test_the_first_tool_that_changed_is_named_before_any_section(tools: tuple[ToolSpec, ...], name: str) -> None:
    told = Watched().send(request(conversation(6), SYSTEM[:1], tools), LOST)
    assert told is not None
    assert (told.cause, told.name) == ("tools", name)


@pytest.mark.parametrize("at", [0, 1, 4, 9, 10])
def test_the_first_message_that_changed_is_named_with_its_entry(at: int) -> None:
    """Also behind what the last request called stable, and where all values are made anew."""
    watched = Watched()
    watched.watch.reset()
    first = ModelRequest("m", SYSTEM, TOOLS, conversation(5), 0, 0, 4_096)
    watched.send(first, Usage(0, 0, 50_000, 10))
    messages = conversation(6)
    for later in {at, min(at + 1, 10)}:
        message = messages[later]
        messages[later] = (
            ToolResultMessage(message.call_id, (TextBlock("other"),))
            if isinstance(message, ToolResultMessage)
            else UserMessage((TextBlock("other"),))
        )
    keys = tuple((100 + place,) for place in range(len(messages)))
    told = watched.send(request(messages), LOST, keys)
    assert told is not None
    role = "tool result" if at and at % 2 == 0 else "user message"
    assert (told.cause, told.name) == ("message", f"{role} {at + 1}, entry {100 + at}")


def test_messages_that_are_gone_are_named() -> None:
    watched = Watched()
    told = watched.send(request(conversation(2)), LOST)
    assert told is not None
    assert (told.cause, told.name) == ("message", "user message 6")


def test_an_expired_prefix_and_another_model_are_the_cause_whatever_else_changed() -> None:
    told = Watched().send(request(conversation(1), SYSTEM[:1]), LOST, later_ms=CACHE_COLD_MS + 60_000)
    assert told is not None
    assert (told.cause, told.name) == ("expired", "6 minutes")
    watched = Watched()
    watched.facts = facts(model="other")
    told = watched.send(request(conversation(6), model="other", generation=9), LOST)
    assert told is not None
    assert (told.cause, told.name) == ("model", "p/m → p/other")
    watched.facts = facts("q", model="other")
    told = watched.send(request(conversation(7), model="other", generation=11), Usage(0, 0, 52_000, 10))
    assert told is not None
    assert (told.cause, told.name) == ("model", "p/other → q/other")
    assert watched.send(request(conversation(8), model="other", generation=11), Usage(0, 52_000, 100, 1)) is None


def test_the_price_is_that_of_what_was_paid_and_may_be_unknown() -> None:
    told = Watched().send(request(conversation(6)), Usage(51_000, 0, 0, 10))
    assert told is not None
    assert told.cost_usd == pytest.approx(50_000 * 2.7 / 1e6)
    watched = Watched()
    watched.facts = facts(price=None)
    told = watched.send(request(conversation(6)), LOST)
    assert told is not None
    assert told.cost_usd is None


def test_a_part_that_is_missing_counts_from_1024_tokens_and_a_twentieth_on() -> None:
    for read, missing in ((48_000, 0), (47_501, 0), (47_400, 2_600), (0, 50_000)):
        told = Watched().send(request(conversation(6)), Usage(51_000 - read, read, 0, 10))
        assert (0 if told is None else told.missing_tokens) == missing


def test_K15_a_prefix_too_short_to_be_cached_is_no_break() -> None:
    watched = Watched()
    watched.watch.reset()
    for written in (0, 1_000):
        watched.send(request(watched.messages), Usage(1_000 - written, 0, written, 10))
        assert watched.send(request(conversation(6)), Usage(3_000, 0, 0, 10)) is None


def test_a_server_that_does_not_cache_is_never_blamed() -> None:
    apis: tuple[WireApi, ...] = ("responses", "chat", "anthropic")
    for api in apis:
        watched = Watched()
        watched.watch.reset()
        watched.facts = facts(api=api)
        for step in range(4):
            assert watched.send(request(conversation(6 + step)), Usage(50_000 + step, 0, 0, 5)) is None


def test_a_server_that_only_tells_what_was_read_is_watched_once_it_has_read() -> None:
    watched = Watched()
    watched.watch.reset()
    watched.facts = facts(api="responses")
    assert watched.send(request(conversation(5)), Usage(50_000, 0, 0, 5)) is None
    assert watched.send(request(conversation(6)), Usage(1_100, 49_920, 0, 5)) is None
    assert watched.send(request(conversation(7)), Usage(1_100, 50_944, 0, 5)) is None
    told = watched.send(request(conversation(8)), Usage(53_000, 0, 0, 5))
    assert told is not None
    assert (told.cause, told.missing_tokens) == ("provider", 52_044 // 128 * 128)


@pytest.mark.parametrize("usage", [Usage(), Usage(0, 0, 0, 7)])
def test_B7_a_request_without_a_report_leaves_the_baseline(usage: Usage) -> None:
    watched = Watched()
    assert watched.send(request(conversation(6), SYSTEM[:1]), usage) is None
    told = watched.send(request(conversation(7), SYSTEM[:1]), LOST)
    assert told is not None
    assert (told.cause, told.name) == ("system", "instructions")


def test_a_reply_nobody_asked_for_says_nothing() -> None:
    watched = Watched()
    assert watched.watch.reply(LOST, watched.facts, 5_000) is None


# --------------------------------------------------------------------------- with a real window


def _send(watch: CacheWatch, talk: Talk, usage: Usage, now_ms: int) -> CacheBreak | None:
    watch.request(talk.request(), now_ms, talk.window.keys)
    return watch.reply(usage, facts(), now_ms)


def _compact(talk: Talk) -> list[list[Payload]]:
    return [[Compaction("history", "s", talk.branch[-3].key, "auto", 50_000, 100), Prefix(SYSTEM, TOOLS)]]


def _clear(talk: Talk) -> list[list[Payload]]:
    key = next(keys[0] for keys in reversed(talk.window.keys[:-2]) if keys)
    return [[Clearing((ClearedItem(key, "[cleared]"),), "clear")]]


@pytest.mark.parametrize(
    "edit",
    [
        _compact,
        _clear,
        lambda talk: [[Drop((talk.window.keys[3][0],))]],
        lambda talk: [*_clear(talk), [Undo((talk.branch[-1].key + 1,))]],  # of the clearing, which comes next
    ],
    ids=["compaction", "clearing", "drop", "undo"],
)
def test_K15_what_has_to_break_the_prefix_is_no_false_alarm(edit: Callable[[Talk], list[list[Payload]]]) -> None:
    talk, watch = Talk(), CacheWatch()
    talk.user("go")
    for n in range(6):
        talk.step(f"c{n}", "text " * 50)
    assert _send(watch, talk, Usage(0, 0, 50_000, 5), 1_000) is None
    for payloads in edit(talk):
        for payload in payloads:
            talk.append(payload)
        talk.reply("ok")
        talk.user("go on")
        assert _send(watch, talk, Usage(0, 0, 9_000, 5), 2_000) is None
    assert _send(watch, talk, Usage(0, 9_000, 10, 5), 3_000) is None


def test_K15_a_rewind_only_moves_the_baseline() -> None:
    talk, watch = Talk(), CacheWatch()
    target = talk.user("go")
    talk.step("c0", "text")
    assert _send(watch, talk, Usage(0, 0, 50_000, 5), 1_000) is None
    entry = talk.transcript.append(Rewind(), 0, target - 1)
    talk.meter.apply(entry, talk.window, talk.window.apply(talk.transcript.branch, entry))
    talk.user("else")
    assert _send(watch, talk, Usage(0, 0, 9_000, 5), 2_000) is None


def test_invariant_3_what_is_attached_by_the_turn_is_no_change() -> None:
    talk, watch = Talk(), CacheWatch()
    talk.user("go")
    cached = 20_000
    _send(watch, talk, Usage(0, 0, cached, 5), 0)
    for n in range(20):
        talk.reply("look", (f"a{n}", f"b{n}"))
        talk.result(f"b{n}", "second")
        talk.result(f"a{n}", "first")
        talk.append(Reminder("git", f"state {n}"))
        if n % 5 == 0:
            talk.append(Pin((), "a.py", "text"))
        assert _send(watch, talk, Usage(0, cached, 2_000, 5), n) is None
        cached += 2_000
    told = _send(watch, talk, Usage(0, 0, cached, 5), 21)
    assert told is not None
    assert told.cause == "provider"  # the watch found no change in all of this


def test_a_new_prefix_and_another_effort_are_named() -> None:
    talk, watch = Talk(), CacheWatch()
    talk.user("go")
    _send(watch, talk, Usage(0, 0, 50_000, 5), 0)
    talk.append(Prefix((PromptSection("identity", "You are else.", True),), talk.window.prefix.tools))
    told = _send(watch, talk, Usage(0, 0, 51_000, 5), 1)
    assert told is not None
    assert (told.cause, told.name) == ("system", "identity")
    talk.append(Setting(effort="high"))
    watch.request(replace(talk.request(), effort="high"), 2, talk.window.keys)
    told = watch.reply(Usage(0, 0, 51_000, 5), facts(), 2)
    assert told is not None
    assert (told.cause, told.name) == ("effort", "default → high")


class _Compared(UserMessage, frozen=True, tag="compared"):
    """Tells how often it was compared with an equal one."""

    def __eq__(self, other: object) -> bool:
        raise AssertionError("a message that cannot have changed was looked at")

    def __hash__(self) -> int:
        return 0


def test_a_request_costs_what_is_new() -> None:
    watch = CacheWatch()
    messages: list[Message] = [_Compared((TextBlock(str(n)),)) for n in range(3_000)]
    watch.request(request(messages), 0)
    watch.reply(Usage(0, 0, 50_000, 5), facts(), 0)

    class Looked(list[Message]):
        taken = 0

        def __getitem__(self, place):  # type: ignore[no-untyped-def]  # both overloads of list
            found = super().__getitem__(place)
            self.taken += len(found) if isinstance(place, slice) else 1
            return found

    later = Looked([*messages, *conversation(1)])
    watch.request(request(later), 1)
    assert watch.reply(Usage(0, 50_000, 500, 5), facts(), 1) is None
    assert later.taken <= 5


def test_the_first_break_of_each_cause_is_told_with_its_price_and_a_trifle_is_not() -> None:
    watched = Watched()
    watch = watched.watch
    lost = [watched.send(request(conversation(steps)), LOST) for steps in (6, 7)]
    other = watched.send(request(conversation(8), model="n"), LOST)
    trifle = CacheBreak("expired", "70 minutes", 9_999, 0.03)
    told = [watch.news(each) for each in (None, trifle, *lost, other, CacheBreak("tools", "", 10_000, None))]
    assert told[:2] == ["", ""] and told[3] == ""
    assert "the provider did not have it (p)" in told[2] and "50,000 tokens" in told[2] and "$0.172 more" in told[2]
    assert "another model (p/m → p/n)" in told[4]
    assert "the tools changed. 10,000 tokens were read anew. " in told[5]
