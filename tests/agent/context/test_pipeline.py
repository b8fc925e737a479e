import pytest

from agent.context.budget import ContextSettings, Thresholds
from agent.context.clearing import CLEARED_TEXT, find
from agent.context.pipeline import CACHE_COLD_MS, Facts, Plan, plan
from agent.context.tokens import Counter
from agent.transcript import Clearing, Compaction, Reminder, Result, Undo
from providers.types import ImageBlock, TextBlock, ToolResultMessage, Usage
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


def full_talk(o200k: Counter, steps: int, each: int = 4_000, tool: str = "read") -> Talk:
    talk = Talk(o200k)
    talk.user("a")
    for n in range(steps):
        talk.step(f"c{n}", words(each), tool)
    talk.reply("done")
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
    talk.reply("done")
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


def test_if_clearing_is_not_enough_the_compaction_works_on_the_whole_texts(o200k: Counter) -> None:
    talk = full_talk(o200k, 12)
    talk.user(words(150_000))
    planned = make_plan(talk, limits(200_000, 64_000))
    assert (planned.payloads, planned.compact) == ((), True)


def test_without_a_compaction_clearing_is_what_is_left(o200k: Counter) -> None:
    talk = full_talk(o200k, 20)
    talk.user(words(150_000))
    planned = make_plan(talk, limits(200_000, 64_000), may_compact=False)
    assert ([p.reason for p in planned.payloads], planned.compact) == (["clear"], False)
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
