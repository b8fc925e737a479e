from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from agent.context.budget import ContextSettings, Thresholds
from agent.context.clearing import CLEARED_TEXT, find
from agent.context.pipeline import CACHE_COLD_MS, Facts, Plan, plan
from agent.context.tokens import Counter
from agent.transcript import ClearedItem, Clearing, Compaction, Entry, Pin, Reminder, Result, Undo, User
from providers.types import ImageBlock, TextBlock, ToolResultMessage, Usage
from tests.agent.context.reads import failure, listing, read
from tests.agent.context.talk import Talk, limits, texts


def words(tokens: int) -> str:
    """About `tokens` tokens by o200k_base."""
    return "\n".join(" ".join(f"w{n % 7}" for n in range(10)) for _ in range(tokens // 21 + 1))


def make_plan(talk: Talk, thresholds: Thresholds, now_ms: int = 0, may_compact: bool = True) -> Plan:
    return plan(talk.transcript.branch, talk.window, talk.meter, Facts(now_ms, thresholds, may_compact))


def result_sizes(talk: Talk) -> list[int]:
    return [
        talk.meter.message_tokens(i) for i, m in enumerate(talk.window.messages) if isinstance(m, ToolResultMessage)
    ]


def test_nothing_to_do_costs_nothing(o200k: Counter) -> None:
    talk = Talk(o200k)
    talk.user("a")
    talk.step("c1", "small")
    planned = make_plan(talk, limits(200_000, 64_000))
    assert (planned.payloads, planned.compact, planned.why) == ((), False, "")
    assert planned.used_tokens == talk.meter.used().tokens


# --------------------------------------------------------------------------- result budget


def test_K8_the_largest_results_of_one_step_are_shortened_before_they_are_sent(o200k: Counter) -> None:
    talk = Talk(o200k)
    talk.user("a")
    talk.reply("look", tuple("abcde"))
    keys = [talk.result(c, words(n)) for c, n in zip("abcde", (15_000, 500, 16_000, 15_500, 14_000), strict=True)]
    planned = make_plan(talk, limits(200_000, 64_000))
    (clearing,) = planned.payloads
    assert clearing.reason == "budget"
    assert [item.key for item in clearing.items] == [keys[0], keys[2], keys[3], keys[4]]
    assert all(f"Entry {item.key} of the session" in item.text for item in clearing.items)
    assert all(item.text.startswith("w0 w1") and item.text.endswith("w1 w2") for item in clearing.items)
    talk.append(clearing)
    assert 44_500 < sum(result_sizes(talk)) <= 45_000  # a quarter of the effective 180,000
    assert planned.used_tokens == pytest.approx(talk.meter.used().tokens, abs=20)
    assert make_plan(talk, limits(200_000, 64_000)).payloads == ()


def test_K8_the_budget_follows_a_small_window_and_leaves_images_and_reminders_alone(o200k: Counter) -> None:
    talk = Talk(o200k)
    talk.user("a")
    talk.reply("look", ("a", "b"))
    talk.append(Result("a", "read", (TextBlock("caption"), ImageBlock("image/png", "0" * 64, 100, 100))))
    key = talk.result("b", words(3_000))
    talk.append(Reminder("date", "It is Monday."))
    (clearing,) = make_plan(talk, limits()).payloads
    assert [item.key for item in clearing.items] == [key]
    talk.append(clearing)
    assert sum(result_sizes(talk)) <= 6_554 // 4
    assert "It is Monday." in texts(talk.window)


@pytest.mark.parametrize("texts", [("", "x " * 900), ("a", "b", "c " * 5), ("done",) * 40])
def test_K8_no_result_is_replaced_by_a_note_that_is_longer(texts: tuple[str, ...]) -> None:
    for window in (1, 64, 512, 2_048):
        talk = Talk()
        talk.user("go")
        ids = tuple(f"c{place}" for place in range(len(texts)))
        talk.reply("", ids)
        for call_id, text in zip(ids, texts, strict=True):
            talk.result(call_id, text)
        before = talk.meter.used().tokens
        planned = plan(talk.branch, talk.window, talk.meter, Facts(0, limits(window)))
        for payload in planned.payloads:
            talk.append(payload)
        after = talk.meter.used().tokens
        assert after < before if planned.payloads else after == before


def test_K8_results_that_were_sent_are_not_cut_by_the_budget(o200k: Counter) -> None:
    talk = Talk(o200k)
    talk.user("a")
    talk.step("c1", words(3_000))
    talk.reply("seen")
    assert make_plan(talk, limits(32_768, 8_192)).payloads == ()


# --------------------------------------------------------------------------- clearing


def cached(talk: Talk) -> Usage:
    """A report that the server had the whole request in its cache."""
    used = talk.meter.used().tokens
    return Usage(100, used - 100, 0, 5)


def full_talk(o200k: Counter, steps: int, each: int = 4_000, tool: str = "read") -> Talk:
    talk = Talk(o200k)
    talk.user("a")
    for n in range(steps):
        talk.step(f"c{n}", words(each), tool)
    talk.reply("done", usage=cached(talk))
    return talk


def test_K9_old_results_are_cleared_in_one_batch_when_that_makes_a_compaction_unnecessary(o200k: Counter) -> None:
    talk = full_talk(o200k, 42)
    thresholds = limits(200_000, 64_000)
    assert talk.meter.used().tokens > thresholds.trigger
    planned = make_plan(talk, thresholds)
    (clearing,) = planned.payloads
    assert (clearing.reason, planned.compact) == ("clear", False)
    assert {item.text for item in clearing.items} == {CLEARED_TEXT}
    talk.append(clearing)
    left = [size for size in result_sizes(talk) if size > 100]
    assert 36_000 <= sum(left) <= 40_000
    assert planned.used_tokens == pytest.approx(talk.meter.used().tokens, abs=100)
    assert make_plan(talk, thresholds, CACHE_COLD_MS).payloads == ()


def test_K9_nothing_is_cleared_while_there_is_room_and_the_cache_is_warm(o200k: Counter) -> None:
    talk = full_talk(o200k, 20)
    assert make_plan(talk, limits(200_000, 64_000), CACHE_COLD_MS - 1).payloads == ()
    (clearing,) = make_plan(talk, limits(200_000, 64_000), CACHE_COLD_MS).payloads
    assert len(clearing.items) == 11


def test_K9_a_cold_cache_alone_does_not_clear_less_than_20000_tokens(o200k: Counter) -> None:
    assert make_plan(full_talk(o200k, 13), limits(200_000, 64_000), CACHE_COLD_MS).payloads == ()


def test_K9_the_clock_going_back_is_not_a_cold_cache(o200k: Counter) -> None:
    talk = full_talk(o200k, 20)
    assert make_plan(talk, limits(200_000, 64_000), -(10**9)).payloads == ()


def test_K9_only_results_that_can_be_had_again_are_cleared(o200k: Counter) -> None:
    talk = full_talk(o200k, 20, tool="web_fetch")
    assert make_plan(talk, limits(200_000, 64_000), CACHE_COLD_MS).payloads == ()


def test_K9_both_figures_are_clamped_to_a_small_window(o200k: Counter) -> None:
    talk = full_talk(o200k, 5, each=900)
    (clearing,) = make_plan(talk, limits(), CACHE_COLD_MS).payloads
    assert len(clearing.items) == 4  # 1,638 tokens protected, at least 819 freed


def test_K9_what_was_cleared_before_is_not_cleared_again(o200k: Counter) -> None:
    talk = full_talk(o200k, 5, each=900)
    (first,) = make_plan(talk, limits(), CACHE_COLD_MS).payloads
    talk.append(first)
    for n in range(3):
        talk.step(f"later{n}", words(900))
    talk.reply("done", usage=cached(talk))
    (second,) = make_plan(talk, limits(), CACHE_COLD_MS).payloads
    assert not {item.key for item in first.items} & {item.key for item in second.items}
    assert len(second.items) == 3


def test_K9_the_newest_step_is_never_cleared(o200k: Counter) -> None:
    talk = Talk(o200k)
    talk.user("a")
    talk.reply("look", ("a", "b"))
    talk.result("a", words(700))
    talk.result("b", words(800))
    assert sum(result_sizes(talk)) < 6_554 // 4 < 3_000
    assert make_plan(talk, limits(), CACHE_COLD_MS).payloads == ()


# --------------------------------------------------------------------------- compaction


def test_I9_at_the_trigger_a_compaction_is_planned(o200k: Counter) -> None:
    talk = Talk(o200k)
    thresholds = limits()
    talk.user("a")
    talk.reply("b", usage=Usage(thresholds.trigger - 11, 0, 0, 10))
    assert not make_plan(talk, thresholds).compact
    talk.user("c")
    planned = make_plan(talk, thresholds)
    assert planned.compact
    assert planned.why == f"{planned.used_tokens:,} tokens are used and the trigger is 5,702"


def test_if_the_other_means_are_not_enough_the_compaction_works_on_the_whole_texts(o200k: Counter) -> None:
    talk = full_talk(o200k, 12)
    talk.user(words(170_000))
    planned = make_plan(talk, limits(200_000, 64_000))
    assert (planned.payloads, planned.compact) == ((), True)


def test_without_a_compaction_the_other_means_are_what_is_left(o200k: Counter) -> None:
    talk = full_talk(o200k, 20)
    talk.user(words(150_000))
    planned = make_plan(talk, limits(200_000, 64_000), may_compact=False)
    assert ([p.reason for p in planned.payloads], planned.compact) == (["clear", "collapse"], False)
    off = limits(200_000, 64_000, ContextSettings(auto_compact=False))
    assert not make_plan(talk, off).compact


def test_what_the_budget_frees_is_passed_on(o200k: Counter) -> None:
    talk = Talk(o200k)
    talk.user(words(4_000))
    talk.reply("look", ("a",))
    talk.result("a", words(3_000))
    assert talk.meter.used().tokens > limits().trigger
    planned = make_plan(talk, limits())
    assert [p.reason for p in planned.payloads] == ["budget"]
    assert planned.used_tokens < limits().trigger
    assert not planned.compact


def test_after_the_undo_of_an_automatic_compaction_none_comes_before_the_blocking_limit(o200k: Counter) -> None:
    thresholds = limits()
    for trigger, suspended in (("auto", True), ("manual", False)):
        talk = Talk(o200k)
        talk.user("a")
        compaction = talk.append(Compaction("h", "s", 4, trigger, 10, 5))  # type: ignore[arg-type]
        talk.append(Undo((compaction.key,)))
        talk.reply("b", usage=Usage(thresholds.trigger + 5, 0, 0, 10))
        assert make_plan(talk, thresholds).compact is not suspended
        talk.reply("c", usage=Usage(thresholds.blocking, 0, 0, 10))
        assert make_plan(talk, thresholds).compact
        talk.append(Compaction("h", "s", 4, "manual", 10, 5))
        talk.reply("d", usage=Usage(thresholds.trigger + 5, 0, 0, 10))
        assert make_plan(talk, thresholds).compact


def test_find_names_what_is_not_there() -> None:
    talk = Talk()
    key = talk.user("a")
    assert find(talk.branch, key).key == key
    with pytest.raises(KeyError):
        find(talk.branch, key + 1)


def test_a_plan_changes_nothing_itself(o200k: Counter) -> None:
    talk = full_talk(o200k, 42)
    before = (talk.branch, list(talk.window.messages), talk.meter.used())
    assert isinstance(make_plan(talk, limits(200_000, 64_000)).payloads[0], Clearing)
    assert (talk.branch, list(talk.window.messages), talk.meter.used()) == before


# --------------------------------------------------------------------------- the order


def mixed_talk(o200k: Counter) -> Talk:
    """What each means can free, each in a part of its own: about 21,000, 31,000 and 21,000 tokens, and more that stays."""
    talk = Talk(o200k)
    talk.user("a")
    text = words(5_250)
    for _ in range(5):
        failure(talk, text)
    for n in range(7):
        talk.step(f"old{n}", text, "bash")
    for n in range(4):
        talk.step(f"look{n}", text, "recall")
    talk.user(words(20_000))
    talk.step("new", words(4_000))
    talk.reply("done", usage=cached(talk))
    return talk


def with_trigger(tokens: int) -> Thresholds:
    return replace(limits(200_000, 64_000), trigger=tokens)


@pytest.mark.parametrize(
    ("above", "reasons", "compact"),
    [
        (-1, [], False),
        (500, ["snip"], False),
        (20_000, ["snip", "clear"], False),
        (38_000, ["snip", "clear", "collapse"], False),
        (59_000, ["snip", "clear", "collapse"], False),
        (80_000, [], True),
    ],
)
def test_K8_snip_clear_collapse_compact_in_this_order_and_what_was_freed_is_passed_on(
    o200k: Counter, above: int, reasons: list[str], compact: bool
) -> None:
    talk = mixed_talk(o200k)
    used = talk.meter.used().tokens
    facts = Facts(0, with_trigger(used - above), settings=ContextSettings(keep_recent_tokens=100, preserve_recent=2))
    planned = plan(talk.branch, talk.window, talk.meter, facts)
    assert ([payload.reason for payload in planned.payloads], planned.compact) == (reasons, compact)
    keys = [item.key for payload in planned.payloads for item in payload.items]
    assert len(keys) == len(set(keys))  # what an earlier step took is not taken again
    for payload in planned.payloads:
        talk.append(payload)
    assert planned.used_tokens == pytest.approx(talk.meter.used().tokens, abs=100)
    if reasons:
        assert planned.used_tokens < used - above


def test_K8_while_collapsing_brings_the_window_below_the_trigger_no_compaction_runs(o200k: Counter) -> None:
    talk = Talk(o200k)
    talk.user("a")
    for n in range(6):
        talk.step(f"look{n}", words(3_000), "recall")
    talk.reply("done", usage=cached(talk))
    facts = Facts(0, with_trigger(talk.meter.used().tokens), settings=ContextSettings(keep_recent_tokens=100))
    planned = plan(talk.branch, talk.window, talk.meter, facts)
    assert ([payload.reason for payload in planned.payloads], planned.compact) == (["collapse"], False)


def test_K8_a_batch_that_frees_next_to_nothing_does_not_break_the_prefix(o200k: Counter) -> None:
    talk = Talk(o200k)
    talk.user(words(20_000))
    read(talk, text=listing(1, 30))
    read(talk, text=listing(1, 30), version="2")
    talk.reply("done", usage=cached(talk))
    planned = plan(talk.branch, talk.window, talk.meter, Facts(0, with_trigger(talk.meter.used().tokens)))
    assert (planned.payloads, planned.compact) == ((), True)


def test_K8_a_cold_cache_alone_neither_snips_nor_collapses_and_old_copies_are_cleared_first(o200k: Counter) -> None:
    talk = Talk(o200k)
    talk.user("a")
    old = [read(talk, text=listing(1, 900)) for _ in range(4)]
    new = read(talk, text=listing(1, 900), version="2")
    talk.step("recalled", words(8_000), "recall")
    talk.reply("done", usage=cached(talk))
    (clearing,) = make_plan(talk, limits(200_000, 64_000), CACHE_COLD_MS).payloads
    assert clearing.reason == "clear"
    line = f"[Superseded: entry {new} has a newer copy of src/a.py]"
    assert [(item.key, item.text) for item in clearing.items] == [(key, line) for key in old]


def test_K8_pinned_and_restored_results_stay(o200k: Counter) -> None:
    talk = full_talk(o200k, 42)
    keys = [entry.key for entry in talk.branch if isinstance(entry.payload, Result)]
    pin = talk.append(Pin((keys[0],)))
    clearing = talk.append(Clearing((ClearedItem(keys[1], CLEARED_TEXT),), "clear"))
    talk.append(Undo((clearing.key,)))
    (cleared,) = make_plan(talk, limits(200_000, 64_000)).payloads
    assert [item.key for item in cleared.items][:2] == keys[2:4]
    talk.append(Undo((pin.key,)))
    (cleared,) = make_plan(talk, limits(200_000, 64_000)).payloads
    assert [item.key for item in cleared.items][:2] == [keys[0], keys[2]]


# --------------------------------------------------------------------------- cold


@pytest.mark.parametrize("usage", [Usage(), Usage(90_000, 0, 0, 5), Usage(0, 0, 0, 5)])
def test_K9_a_server_that_does_not_cache_is_never_cold(o200k: Counter, usage: Usage) -> None:
    talk = Talk(o200k)
    talk.user("a")
    for n in range(20):
        talk.step(f"c{n}", words(4_000))
    talk.reply("done", usage=usage)
    assert make_plan(talk, limits(200_000, 64_000), 10 * CACHE_COLD_MS).payloads == ()
    assert make_plan(talk, with_trigger(60_000), 0).payloads != ()  # for space it is cleared all the same


def test_K9_one_reply_that_missed_the_cache_does_not_hide_that_there_is_one(o200k: Counter) -> None:
    talk = full_talk(o200k, 20)
    for n in range(7):
        talk.user("more")
        talk.reply("ok", usage=Usage(90_000 + n, 0, 0, 5))
    assert make_plan(talk, limits(200_000, 64_000), CACHE_COLD_MS).payloads != ()
    talk.reply("ok", usage=Usage(91_000, 0, 0, 5))
    assert make_plan(talk, limits(200_000, 64_000), CACHE_COLD_MS).payloads == ()


def test_K9_the_age_is_that_of_the_newest_reply(o200k: Counter) -> None:
    talk = full_talk(o200k, 20)
    talk.now_ms = 1_000_000
    talk.reply("still here", usage=cached(talk))
    assert make_plan(talk, limits(200_000, 64_000), 1_000_000 + CACHE_COLD_MS - 1).payloads == ()
    assert make_plan(talk, limits(200_000, 64_000), 1_000_000 + CACHE_COLD_MS).payloads != ()


# --------------------------------------------------------------------------- images


def picture(n: int, size_bytes: int = 0) -> ImageBlock:
    return ImageBlock("image/png", f"{n:064}", 1_000, 750, size_bytes)


def test_K9_images_in_old_messages_become_a_line_with_their_path_and_size(o200k: Counter) -> None:
    talk = Talk(o200k)
    caption = TextBlock("[Image shot.png, 1,000×750 pixels, scaled down from 4,000×3,000]")
    images = tuple(block for n in range(40) for block in (caption, picture(n, 5_000)))
    user = talk.append(User((TextBlock("look"), *images)))
    talk.reply("look", ("c",))
    result = talk.append(Result("c", "web_fetch", (TextBlock("a page"), *(picture(100 + n) for n in range(3)))))
    talk.step("new", words(38_000))
    talk.reply("done", usage=cached(talk))
    (clearing,) = make_plan(talk, limits(200_000, 64_000), CACHE_COLD_MS).payloads
    assert [(item.key, item.block) for item in clearing.items] == [
        *((user.key, 2 + 2 * n) for n in range(40)),
        (result.key, None),
    ]
    talk.append(clearing)
    sent = texts(talk.window)
    line = (
        "[An image was here and was taken out: shot.png, image/png, 1,000×750 pixels, 5,000 bytes; "
        f"entry {user.key} of the session has it]"
    )
    assert sent.count(line) == 40
    assert "a page\n[An image was here and was taken out: image/png, 1,000×750 pixels; entry" in sent
    assert sent.startswith("look\n[Image shot.png")
    assert not any(isinstance(block, ImageBlock) for message in talk.window.messages for block in message.blocks)
    assert make_plan(talk, limits(200_000, 64_000), CACHE_COLD_MS).payloads == ()


def test_K9_new_images_are_protected_as_new_results_are(o200k: Counter) -> None:
    talk = Talk(o200k)
    talk.append(User(tuple(picture(n) for n in range(60))))
    talk.reply("seen", usage=cached(talk))
    (clearing,) = make_plan(talk, limits(200_000, 64_000), CACHE_COLD_MS).payloads
    assert len(clearing.items) == 60  # 60,000 tokens in one message are no new 40,000
    talk = Talk(o200k)
    talk.append(User(tuple(picture(n) for n in range(39))))
    talk.reply("seen", usage=cached(talk))
    assert make_plan(talk, limits(200_000, 64_000), CACHE_COLD_MS).payloads == ()


def test_images_of_more_bytes_than_a_request_may_have_go_oldest_first(o200k: Counter) -> None:
    talk = Talk(o200k)
    keys = [talk.append(User((TextBlock(f"shot {n}"), picture(n, 3_000_000)))).key for n in range(6)]
    assert make_plan(talk, limits(200_000, 64_000)).payloads == ()
    keys.append(talk.append(User((picture(9, 3_000_000),))).key)
    (clearing,) = make_plan(talk, limits(200_000, 64_000)).payloads
    assert clearing.reason == "budget"
    assert [item.key for item in clearing.items] == keys[:4]
    talk.append(clearing)
    assert talk.meter.image_bytes == 9_000_000
    assert make_plan(talk, limits(200_000, 64_000)).payloads == ()


# --------------------------------------------------------------------------- cost


class Walked(list[Entry]):
    """A branch that counts how many entries are looked at."""

    looked_at = 0

    def __getitem__(self, place):  # type: ignore[no-untyped-def]  # both overloads of list
        self.looked_at += 1
        return super().__getitem__(place)

    def __iter__(self) -> Iterator[Entry]:
        for entry in super().__iter__():
            self.looked_at += 1
            yield entry

    def __reversed__(self) -> Iterator[Entry]:
        for entry in super().__reversed__():
            self.looked_at += 1
            yield entry


@pytest.mark.parametrize("usage", [Usage(), Usage(10, 90, 0, 1)])
def test_K8_below_the_trigger_with_a_warm_cache_a_plan_does_not_walk_the_history(usage: Usage) -> None:
    looked: list[int] = []
    for entries in (100, 1_000, 10_000):
        talk = Talk()
        talk.user("go")
        while len(talk.transcript) < entries:
            talk.step(f"c{len(talk.transcript)}", "text")
        talk.reply("ok", usage=usage)
        talk.user("more")
        branch = Walked(talk.transcript.branch)
        facts = Facts(0, limits(50_000_000, 64_000))
        assert plan(branch, talk.window, talk.meter, facts).payloads == ()
        looked.append(branch.looked_at)
    assert looked[0] == looked[1] == looked[2] <= 4


def test_K8_over_the_trigger_a_window_with_nothing_to_free_is_not_walked_again_before_it_has_grown(
    o200k: Counter,
) -> None:
    talk = Talk(o200k)
    talk.user("go")
    while len(talk.transcript) < 1_000:
        talk.step(f"c{len(talk.transcript)}", "text")
    used = talk.meter.used().tokens
    thresholds = replace(limits(200_000, 64_000), trigger=used - 10, effective=2 * used, blocking=2 * used)
    branch = Walked(talk.transcript.branch)
    first = plan(branch, talk.window, talk.meter, Facts(0, thresholds, may_compact=False))
    assert first.found_nothing and branch.looked_at >= 1_000
    facts = Facts(0, thresholds, may_compact=False, nothing_at=(talk.window.generation, first.used_tokens))
    talk.step("more", "text")
    branch = Walked(talk.transcript.branch)
    assert plan(branch, talk.window, talk.meter, facts).payloads == () and branch.looked_at == 0
    talk.step("large", words(15_000))
    talk.reply("ok")
    assert [p.reason for p in plan(talk.branch, talk.window, talk.meter, facts).payloads] == ["clear"]
    # A compaction is planned whatever is known to be of no use.
    assert plan(talk.branch, talk.window, talk.meter, replace(facts, may_compact=True)).compact
