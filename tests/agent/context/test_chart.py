"""The gauge over a session, from what was recorded."""

from agent.context.chart import chart
from agent.context.pieces import ChartPoint
from agent.context.reports import first_sent
from agent.context.tokens import Counter, message_tokens, prefix_tokens
from agent.transcript import ClearedItem, Clearing, Compaction, Drop, Entry, Pin, Prefix, Undo
from providers.types import Usage
from tests.agent.context.talk import Talk

counter = Counter()


def size(entry: Entry) -> int:
    if isinstance(entry.payload, Prefix):
        return prefix_tokens(counter, entry.payload.sections, entry.payload.tools)
    message = first_sent(entry)
    return 0 if message is None else message_tokens(counter, message)


def points(talk: Talk) -> list[ChartPoint]:
    return chart(talk.branch, size, counter.count)


def test_a_point_for_each_reply_as_it_was_reported_without_unsent_thinking() -> None:
    talk = Talk()
    assert points(talk) == []
    talk.user("fix it")
    first = talk.reply("look", ("a",), usage=Usage(900, 60_000, 100, 50, thinking_tokens=20))
    talk.result("a", "line " * 100)
    second = talk.reply("done", usage=Usage(200, 61_000, 0, 10))
    assert points(talk) == [ChartPoint(first, 61_030), ChartPoint(second, 61_210)]


def test_without_reports_the_sizes_of_the_entries_add_up() -> None:
    talk = Talk()
    talk.user("word " * 100)
    talk.reply("one")
    talk.user("word " * 100)
    talk.append(Prefix((), ()))
    talk.reply("two")
    first, second = points(talk)
    prefix = size(talk.branch[1])
    assert prefix + 125 < first.used_tokens < prefix + 160
    assert 100 < second.used_tokens - (first.used_tokens - prefix) < 160, "a new prefix replaces the old one"


def test_what_makes_the_window_smaller_is_marked_and_its_undo_puts_it_back() -> None:
    talk = Talk()
    user = talk.user("fix it")
    talk.reply("look", ("a", "b"), usage=Usage(5_000, output_tokens=100))
    big, other = talk.result("a", "line " * 1_000), talk.result("b", "line " * 1_000)
    talk.reply("so", usage=Usage(7_600, output_tokens=100))
    cleared = talk.append(Clearing((ClearedItem(big, "[gone]"),), "clear")).key
    dropped = talk.append(Drop((other,))).key
    back = talk.append(Undo((dropped,))).key
    pin = talk.append(Pin((user,))).key
    shortened = talk.append(Clearing((ClearedItem(other, "short"),), "user")).key
    compacted = talk.append(Compaction("history", "s", shortened + 1, "auto", 5_300, 900)).key
    undone = talk.append(Undo((compacted,))).key
    again = talk.append(Undo((undone,))).key
    found = points(talk)[2:]
    assert [(point.key, point.event) for point in found] == [
        (cleared, "clearing"),
        (dropped, "edit"),
        (back, "undo"),
        (shortened, "edit"),
        (compacted, "compaction"),
        (undone, "undo"),
        (again, "undo"),
    ]
    assert pin not in [point.key for point in found]
    used = [point.used_tokens for point in found]
    assert 6_350 < used[0] < 6_500 and 5_050 < used[1] < 5_250
    assert used[2] == used[0] and used[3] < used[0] - 1_200
    assert used[4] == 900 == used[6] and used[5] == 900 + 5_300 - 900


def test_nothing_is_ever_below_zero() -> None:
    talk = Talk()
    key = talk.user("word " * 1_000)
    talk.reply("x", usage=Usage(10))
    talk.append(Drop((key,)))
    talk.append(Clearing((ClearedItem(99, "unknown " * 50),), "clear"))
    assert min(point.used_tokens for point in points(talk)) == 0
