import random
import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.context.meter import Meter
from agent.context.tokens import Counter, message_tokens, prefix_tokens
from agent.transcript import (
    Assistant,
    ClearedItem,
    Clearing,
    Compaction,
    Drop,
    Prefix,
    Reminder,
    Rewind,
    Setting,
    Transcript,
    Undo,
    User,
)
from agent.window import Window
from providers.types import (
    AssistantMessage,
    ImageBlock,
    OpaqueBlock,
    PromptSection,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    Usage,
)
from tests.agent.context.talk import Server, Talk
from tests.agent.strategies import step
from tests.examples import examples

ENGLISH = "The function joins strings where it should add numbers, so the test for negative values still fails. "
CHINESE = "修复求和函数，保持公共接口不变，并运行测试验证，负数用例仍然失败。"
CODE = "def sum(a, b):\n    return int(a) + int(b)  # strings come from the form\n"


def estimate(talk: Talk) -> int:
    counter, window = talk.meter.counter, talk.window
    prefix = prefix_tokens(counter, window.prefix.sections, window.prefix.tools)
    return prefix + sum(message_tokens(counter, message) for message in window.messages)


def test_M4_without_reports_everything_is_estimated(o200k: Counter) -> None:
    talk = Talk(o200k)
    assert talk.meter.used().tokens == estimate(talk) > 0
    talk.user("fix it")
    used = talk.meter.used()
    assert (used.tokens, used.is_estimate, used.measured_tokens) == (estimate(talk), True, 0)


def test_I7_the_newest_report_and_an_estimate_of_what_came_after_it(o200k: Counter) -> None:
    talk = Talk(o200k)
    talk.user("fix it")
    talk.reply("reading", ("c1",), Usage(1_000, 0, 0, 50))
    assert talk.meter.used().tokens == 1_050
    assert not talk.meter.used().is_estimate
    talk.result("c1", CODE)
    after = message_tokens(o200k, talk.window.messages[-1])
    assert talk.meter.used().tokens == 1_050 + after
    assert talk.meter.used().is_estimate
    assert talk.meter.used(400).tokens == 1_050 + after + 100
    talk.reply("done", usage=Usage(1_100, 0, 0, 10))
    assert talk.meter.used().tokens == 1_110  # not 1,050 + 1,110


@pytest.mark.parametrize("usage", [Usage(100, 60_000, 500, 7), Usage(600, 60_000, 0, 7)])
def test_B5_cached_tokens_count_once(usage: Usage) -> None:
    talk = Talk()
    talk.user("fix it")
    talk.reply("ok", usage=usage)
    assert talk.meter.used().tokens == 60_607


@pytest.mark.parametrize("usage", [Usage(), Usage(0, 0, 0, 40)])
def test_B7_a_server_without_usage_gives_an_estimate_that_grows(o200k: Counter, usage: Usage) -> None:
    talk = Talk(o200k)
    sizes = []
    for turn in range(5):
        talk.user(f"{turn} {CHINESE * 5}")
        talk.reply(CHINESE, usage=usage)
        assert talk.meter.used().is_estimate
        assert talk.meter.factor == 1.0
        sizes.append(talk.meter.used().tokens)
    assert sizes == sorted(set(sizes))
    assert sizes[-1] == estimate(talk)


def test_B7_a_missing_report_leaves_the_last_one_in_force(o200k: Counter) -> None:
    talk = Talk(o200k)
    talk.user("a")
    talk.reply("b", usage=Usage(1_000, 0, 0, 10))
    talk.user("c")
    talk.reply("d")
    later = sum(message_tokens(o200k, message) for message in talk.window.messages[2:])
    assert talk.meter.used().tokens == 1_010 + later


def test_B7_a_repeated_report_does_not_double_and_teaches_nothing(o200k: Counter) -> None:
    talk = Talk(o200k)
    for _ in range(3):
        talk.user("a")
        talk.reply("b", usage=Usage(1_000, 0, 0, 10))
    assert talk.meter.used().tokens == 1_010
    assert talk.meter.factor == 1.0


def test_invariant_7_thinking_that_is_not_sent_back_does_not_count(o200k: Counter) -> None:
    talk = Talk(o200k)
    talk.user("a")
    talk.reply("short", usage=Usage(1_000, 0, 0, 500, 450), extra=(ThinkingBlock("long"),))
    assert talk.meter.used().tokens == 1_050


def test_invariant_7_thinking_that_is_sent_back_counts(o200k: Counter) -> None:
    talk = Talk(o200k)
    talk.user("a")
    talk.reply("short", usage=Usage(1_000, 0, 0, 500, 450), extra=(ThinkingBlock("long", "signed"),))
    assert talk.meter.used().tokens == 1_500
    talk.user("b")
    sealed = OpaqueBlock("anthropic", "m", {"type": "reasoning", "encrypted_content": "x" * 100})
    talk.reply("short", usage=Usage(2_000, 0, 0, 500, 450), extra=(sealed,))
    assert talk.meter.used().tokens == 2_500


def test_invariant_7_unsent_thinking_of_unknown_size_leaves_the_reply_to_the_estimate(o200k: Counter) -> None:
    talk = Talk(o200k)
    talk.user("a")
    talk.reply("short", usage=Usage(1_000, 0, 0, 500), extra=(ThinkingBlock("long " * 400),))
    sent = message_tokens(o200k, AssistantMessage((TextBlock("short"),)))
    assert talk.meter.used().tokens == 1_000 + sent


def test_an_interrupted_reply_measures_its_request_only(o200k: Counter) -> None:
    talk = Talk(o200k)
    talk.user("a")
    talk.reply("half a rep", usage=Usage(1_000, 0, 0, 3), interrupted=True)
    sent = message_tokens(o200k, AssistantMessage((TextBlock("half a rep"),)))
    assert talk.meter.used().tokens == 1_000 + sent
    talk.user("b")
    talk.append(Assistant((), "p", "m", "anthropic", "m", None, Usage(1_030, 0, 0, 0), "unknown", interrupted=True))
    assert talk.meter.used().tokens == 1_030


def test_a_report_of_another_model_says_nothing(o200k: Counter) -> None:
    talk = Talk(o200k)
    talk.user("a")
    blocks = (TextBlock("b"),)
    talk.append(Assistant(blocks, "p", "other", "anthropic", "m", None, Usage(9_000), "end_turn"))
    assert talk.meter.used().tokens == estimate(talk)


def test_I7_after_a_compaction_old_reports_do_not_count_and_the_factor_stays(o200k: Counter) -> None:
    talk = Talk(o200k)
    server = Server(o200k, 1.35, overhead=4)
    for turn in range(4):
        talk.user(f"{turn} {ENGLISH * 20}")
        talk.reply("ok", usage=Usage(server.prompt(talk.window), 0, 0, 5))
    factor = talk.meter.factor
    assert factor == pytest.approx(1.35, abs=0.01)
    head = talk.transcript.head
    assert head is not None
    talk.append(Compaction("short", "short", head, "auto", 5_000, 100))
    used = talk.meter.used()
    assert (used.measured_tokens, used.is_estimate) == (0, True)
    assert used.tokens >= round(factor * estimate(talk))
    assert used.tokens == pytest.approx(server.prompt(talk.window), rel=0.02)
    assert talk.meter.factor == factor


@pytest.mark.parametrize("factor", [0.8, 1.0, 1.35])
def test_invariant_7_behind_a_broken_prefix_what_the_provider_adds_to_a_request_is_known(
    o200k: Counter, factor: float
) -> None:
    talk, server = Talk(o200k, system=ENGLISH * 20), Server(o200k, factor, overhead=9)
    talk.user("go")
    for turn in range(30):
        call = ToolCall(f"c{turn}", "read", '{"path": "a"}')
        usage = Usage(server.prompt(talk.window), 0, 0, server.output((call,)))
        talk.append(Assistant((call,), "p", "m", "anthropic", "m", None, usage, "tool_use"))
        talk.result(f"c{turn}", (ENGLISH, CHINESE, CODE)[turn % 3] * (1 + turn))
    floor = talk.meter.floor_tokens
    assert floor == pytest.approx(server.prompt(Window(talk.branch[:2])), rel=0.05)
    talk.append(Compaction(ENGLISH, "s", talk.branch[-6].key, "auto", 5_000, 100))
    exact = server.prompt(talk.window)
    assert talk.meter.used().tokens == pytest.approx(exact, rel=0.05)
    assert talk.meter.preview(talk.window) == talk.meter.used().tokens
    resumed = Meter(o200k)
    resumed.rebuild(talk.branch, Window(talk.branch))
    assert resumed.used().tokens == pytest.approx(exact, rel=0.05)


def test_what_a_provider_adds_is_not_believed_beyond_the_request_it_was_learnt_from(o200k: Counter) -> None:
    for reported, factor in ((1_000_000, 2), (1, 0)):
        talk = Talk(o200k)
        talk.user(ENGLISH)
        whole = estimate(talk)
        talk.reply("ok", usage=Usage(reported))
        talk.append(Compaction("-", "s", talk.branch[-1].key + 1, "auto", 5_000, 100))
        assert talk.meter.used().tokens == pytest.approx(max(0, estimate(talk) + (factor - 1) * whole), abs=1)


def test_B5_an_image_counts_by_its_formula_and_teaches_no_factor(o200k: Counter) -> None:
    talk, server = Talk(o200k), Server(o200k, 1.35, overhead=4)
    images = 0
    for turn in range(6):
        picture = ImageBlock("image/png", f"{turn:064}", 1_000, 750, 5_000)
        talk.append(User((TextBlock(ENGLISH * 3), picture)))
        images += 1_000 - round(2_000 * 1.35)  # the server takes an image for 2,000 of its own
        predicted = talk.meter.used().tokens
        actual = server.prompt(talk.window) + images
        if turn >= 3:
            assert predicted == pytest.approx(actual, rel=0.02)
        talk.reply("ok", usage=Usage(actual, 0, 0, server.output((TextBlock("ok"),))))
    assert talk.meter.factor == pytest.approx(1.35, rel=0.02)
    assert talk.meter.image_bytes == 30_000
    talk.append(Setting(provider="q", model="gpt-5", family="gpt-5", api="responses"))
    assert talk.meter.image_tokens(ImageBlock("image/png", "0" * 64, 1_000, 750)) == 70 + 4 * 140
    talk.append(Setting(model="unknown", family="unknown"))
    assert talk.meter.used().tokens >= 6 * 2_000


@pytest.mark.parametrize(
    "usage",
    [
        Usage(),
        Usage(0, 0, 0, 99),
        Usage(5, 0, 0, -3),
        Usage(-5, 0, 0, 1),
        Usage(1, 10**12, 0, 5),
        Usage(0, 0, 7, 0, 40),
    ],
)
def test_B7_the_gauge_is_a_whole_number_from_zero_on_whatever_is_reported(usage: Usage) -> None:
    talk = Talk()
    for turn in range(4):
        talk.user(CHINESE)
        for streamed in (0, 7, -1):
            used = talk.meter.used(streamed)
            assert type(used.tokens) is int
            assert used.tokens >= 0
            assert used.tokens == used.measured_tokens + used.estimated_tokens
        talk.reply("ok" * turn, usage=usage)
    assert 0.5 <= talk.meter.factor <= 2.5


def test_invariant_7_the_factor_is_kept_within_bounds_and_over_eight_steps(o200k: Counter) -> None:
    for growth, expected in ((50_000, 2.5), (10, 0.5)):
        talk = Talk(o200k)
        for turn in range(12):
            talk.user(ENGLISH * 40)
            talk.reply("ok", usage=Usage(1_000 + turn * growth, 0, 0, 5))
        assert talk.meter.factor == expected
        for _ in range(9):
            before = sum(message_tokens(o200k, message) for message in talk.window.messages)
            talk.user(ENGLISH * 40)
            talk.reply("ok", usage=Usage(900_000 + before, 0, 0, 5))
        assert talk.meter.factor == pytest.approx(1.0, abs=0.01)


def test_invariant_7_many_tiny_steps_do_not_make_the_factor_one_of_wrappers(o200k: Counter) -> None:
    talk = Talk(o200k)
    server = Server(o200k, 1.2, overhead=1)
    for turn in range(8):
        talk.user(f"{turn} {ENGLISH * 30}")
        talk.reply("ok", usage=Usage(server.prompt(talk.window), 0, 0, 5))
    learnt = talk.meter.factor
    for turn in range(20):
        talk.reply("", (f"c{turn}",), Usage(server.prompt(talk.window), 0, 0, 9))
        talk.result(f"c{turn}", "ok")
    assert talk.meter.factor == pytest.approx(learnt, rel=0.03)
    resumed = Meter(o200k)
    resumed.rebuild(talk.branch, Window(talk.branch))
    assert resumed.factor == pytest.approx(talk.meter.factor)


def test_a_reminder_and_a_placeholder_count_where_they_stand(o200k: Counter) -> None:
    talk = Talk(o200k)
    talk.user("a")
    talk.append(Reminder("date", "It is Monday."))
    talk.reply("b", ("c1", "c2"))
    talk.result("c2", "second")
    talk.result("c1", "first")
    talk.append(Reminder("git", "main is ahead by two."))
    talk.reply("d", ("c3",))
    talk.user("go on")
    assert talk.meter.used().tokens == estimate(talk)


def test_clearing_and_its_undo_change_the_estimate_there_and_back(o200k: Counter) -> None:
    talk = Talk(o200k)
    talk.user("a")
    _, key = talk.step("c1", ENGLISH * 50)
    before = talk.meter.used().tokens
    clearing = talk.append(Clearing((ClearedItem(key, "[cleared]"),), "clear"))
    assert talk.meter.used().tokens == estimate(talk) < before - 500
    talk.append(Undo((clearing.key,)))
    assert talk.meter.used().tokens == before


# --------------------------------------------------------------------------- properties


@settings(max_examples=examples(10), deadline=None)
@given(st.data())
def test_following_a_transcript_gives_what_counting_its_window_gives(data: st.DataObject) -> None:
    transcript, window, meter = Transcript(), Window(), Meter(Counter())
    for _ in range(data.draw(st.integers(0, 20))):
        entry = transcript.append(data.draw(step(transcript)), 0)
        meter.apply(entry, window, window.apply(transcript.branch, entry))
        used = meter.used()
        assert used.tokens == used.measured_tokens + used.estimated_tokens
        assert used.estimated_tokens >= 0
        assert meter.all_message_tokens() == [
            round(message_tokens(meter.counter, message) * meter.factor) for message in window.messages
        ]
    again = Meter(Counter())
    again.load_counts(meter.counts())
    again.rebuild(transcript.branch, window)
    assert [round(t / again.factor) for t in again.all_message_tokens()] == [
        round(t / meter.factor) for t in meter.all_message_tokens()
    ]
    assert again.used().measured_tokens == meter.used().measured_tokens


def test_a_resume_shows_the_same_gauge_without_counting_again(o200k: Counter) -> None:
    talk = Talk(o200k)
    server = Server(o200k, 1.2)
    for turn in range(6):
        talk.user(f"{turn} {ENGLISH}")
        talk.reply("look", (f"c{turn}",), Usage(server.prompt(talk.window), 0, 0, 25))
        talk.result(f"c{turn}", CODE * (turn + 1))
    stored = talk.meter.new_counts()
    assert talk.meter.new_counts() == {}
    talk.user("and now?")
    stored.update(talk.meter.new_counts())
    assert stored == talk.meter.counts()
    unloaded = Meter(Counter())
    unloaded.load_counts(stored)
    unloaded.rebuild(talk.branch, Window(talk.branch))
    assert unloaded.used() == talk.meter.used()
    assert unloaded.factor == pytest.approx(talk.meter.factor)


def test_a_resume_behind_a_compaction_keeps_the_factor_of_the_steps_before_it(o200k: Counter) -> None:
    talk = Talk(o200k)
    server = Server(o200k, 1.3, overhead=4)
    for turn in range(5):
        talk.user(f"{turn} {ENGLISH * 8}")
        talk.reply("ok", usage=Usage(server.prompt(talk.window), 0, 0, 5))
    repeated = Usage(server.prompt(talk.window), 0, 0, 5)
    for _ in range(10):
        talk.reply("again", usage=repeated)
    talk.append(Compaction("short", "short", talk.branch[-1].key, "auto", 5_000, 100))
    resumed = Meter(o200k)
    resumed.rebuild(talk.branch, Window(talk.branch))
    assert resumed.factor == pytest.approx(1.3, abs=0.01)
    assert resumed.used().tokens == pytest.approx(talk.meter.used().tokens, rel=0.01)


def test_a_resume_behind_a_rewind_still_knows_what_the_provider_adds(o200k: Counter) -> None:
    talk = Talk(o200k)
    server = Server(o200k, 1.0)
    talk.user("a")
    entry = talk.transcript.append(Rewind(), 0, parent=2)
    talk.meter.apply(entry, talk.window, broke=talk.window.apply(talk.transcript.branch, entry))
    talk.user("b")
    talk.reply("ok", usage=Usage(server.prompt(talk.window), 0, 0, 5))
    talk.append(Compaction("short", "short", 4, "manual", 100, 100))
    resumed = Meter(o200k)
    resumed.rebuild(talk.branch, Window(talk.branch))
    assert resumed.used() == talk.meter.used()


def test_a_resume_that_says_again_what_is_in_force_takes_no_step_from_the_factor(o200k: Counter) -> None:
    talk = Talk(o200k)
    server = Server(o200k, 1.3)
    for turn in range(4):
        talk.append(Setting(provider="p", model="m", family="m", api="anthropic", mode="auto"))
        talk.user(f"{turn} {ENGLISH * 8}")
        talk.reply("ok", usage=Usage(server.prompt(talk.window), 0, 0, 5))
    talk.append(Compaction("short", "short", talk.branch[-1].key, "auto", 5_000, 100))
    resumed = Meter(o200k)
    resumed.rebuild(talk.branch, Window(talk.branch))
    assert resumed.factor == pytest.approx(1.3, abs=0.06)
    assert resumed.used() == talk.meter.used()


def test_a_stored_count_of_a_reply_whose_call_was_dropped_is_not_believed(o200k: Counter) -> None:
    talk = Talk(o200k)
    talk.user("a")
    talk.reply("I look at both.", ("one", "two"))
    first = talk.result("one", CODE)
    talk.result("two", CODE)
    talk.reply("Done.")
    talk.append(Drop((first,)))
    resumed = Meter(o200k)
    resumed.load_counts(talk.meter.counts())
    resumed.rebuild(talk.branch, Window(talk.branch))
    assert resumed.used() == talk.meter.used()


def test_a_stored_count_of_a_cleared_result_is_not_believed(o200k: Counter) -> None:
    talk = Talk(o200k)
    talk.user("a")
    _, key = talk.step("c1", ENGLISH * 50)
    stored = talk.meter.counts()
    talk.append(Clearing((ClearedItem(key, "[cleared]"),), "clear"))
    resumed = Meter(o200k)
    resumed.load_counts(stored)
    resumed.rebuild(talk.branch, Window(talk.branch))
    assert resumed.used() == talk.meter.used()
    assert resumed.counts()[key] > 500


def test_once_the_tokenizer_is_there_estimates_are_counted_anew_once() -> None:
    talk = Talk()
    talk.user(CHINESE * 10)
    talk.reply("ok", usage=Usage(2_000, 0, 0, 10))
    talk.user(CHINESE * 40)
    assert not talk.meter.recount(talk.branch, talk.window)
    assert talk.meter.counts() == {}
    talk.meter.counter.load()
    assert talk.meter.recount(talk.branch, talk.window)
    exact = message_tokens(talk.meter.counter, talk.window.messages[-1])
    assert talk.meter.used().tokens == 2_010 + exact
    assert not talk.meter.recount(talk.branch, talk.window)
    assert len(talk.meter.new_counts()) == 3


def test_a_new_prefix_is_counted(o200k: Counter) -> None:
    talk = Talk(o200k)
    talk.user("a")
    before = talk.meter.floor_tokens
    talk.append(Prefix((PromptSection("identity", ENGLISH * 30, True),), ()))
    assert talk.meter.floor_tokens == o200k.count(ENGLISH * 30) > before
    talk.append(Setting(title="no break"))
    assert talk.meter.used().tokens == estimate(talk)


# --------------------------------------------------------------------------- accuracy


@pytest.mark.parametrize("factor", [0.8, 1.0, 1.2, 1.35])
def test_invariant_7_after_three_reports_the_next_input_is_predicted_within_2_and_5_percent(
    o200k: Counter, factor: float
) -> None:
    errors: list[float] = []
    for seed in range(4):
        pick = random.Random(seed)
        talk, server = Talk(o200k, system=ENGLISH * 40), Server(o200k, factor)
        talk.user(pick.choice((ENGLISH, CHINESE)) * 3)
        for turn in range(24):
            predicted, actual = talk.meter.used().tokens, server.prompt(talk.window)
            if turn >= 3:
                errors.append(abs(predicted - actual) / actual)
            words = pick.choice((ENGLISH, CHINESE)) * pick.randint(1, 4)
            call = ToolCall(f"c{turn}", "read", '{"path": "src/sum.py"}')
            usage = Usage(actual // 10, actual - actual // 10, 0, server.output((TextBlock(words), call)))
            talk.append(Assistant((TextBlock(words), call), "p", "m", "anthropic", "m", None, usage, "tool_use"))
            talk.result(f"c{turn}", pick.choice((ENGLISH, CHINESE, CODE)) * pick.randint(1, 60))
    print(f"factor {factor}: median {statistics.median(errors):.4f}, worst {max(errors):.4f}")
    assert statistics.median(errors) < 0.02
    assert max(errors) < 0.05


def test_an_entry_costs_what_is_new_however_long_the_window_is(o200k: Counter) -> None:
    class Counting(Counter):
        counted = 0

        def count(self, text: str) -> int:
            Counting.counted += 1
            return super().count(text)

    def cost(messages: int) -> int:
        talk = Talk(Counting())
        for turn in range(messages):
            talk.user(f"{turn}")
            talk.reply("ok", usage=Usage(100 + turn, 0, 0, 1))
        Counting.counted = 0
        talk.user("new")
        talk.meter.used()
        return Counting.counted

    assert cost(5) == cost(500) == 1
