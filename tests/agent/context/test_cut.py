from hypothesis import given, settings
from hypothesis import strategies as st

from agent.context.cut import Cut, NoCut, find_cut, smallest_tail_tokens
from agent.transcript import Compaction, Reminder, Transcript, User
from agent.window import Window
from providers.types import AssistantMessage, Message, TextBlock, ToolCall, ToolResultMessage
from tests.agent.context.talk import Talk, texts
from tests.agent.strategies import transcripts
from tests.examples import examples


def cut(talk: Talk, sizes: list[int], room: int, keep: int = 20_000, preserve: int = 4) -> Cut | NoCut:
    return find_cut(talk.window, sizes, room_tokens=room, keep_tokens=keep, preserve_recent=preserve)


def long_talk(turns: int = 10) -> Talk:
    """Each turn: user, reply with two calls, two results."""
    talk = Talk()
    for turn in range(turns):
        talk.user(f"turn {turn}")
        talk.reply("look", (f"a{turn}", f"b{turn}"))
        talk.result(f"a{turn}", "one")
        talk.result(f"b{turn}", "two")
    return talk


def test_I10_the_tail_holds_what_keep_recent_tokens_allows() -> None:
    talk = long_talk()
    found = cut(talk, [100] * 40, room=100_000, keep=1_150)
    assert isinstance(found, Cut)
    assert found.kept_tokens == 1_100  # a user's message is 100, a reply with its results 300
    assert found.end == 29
    assert talk.window.keys[found.end][0] == found.first_kept


def test_design_4_the_tail_is_at_most_a_quarter_of_the_room() -> None:
    found = cut(long_talk(), [100] * 40, room=6_000)
    assert isinstance(found, Cut)
    assert found.kept_tokens == 1_500


def test_design_4_the_last_four_messages_stay_although_they_are_over_the_target() -> None:
    found = cut(long_talk(), [100] * 40, room=100_000, keep=0)
    assert isinstance(found, Cut)
    assert found.kept_tokens == 800  # two turns: user 100, reply with results 300


def test_design_4_fewer_than_four_stay_if_they_are_over_half_of_the_room_but_never_none() -> None:
    found = cut(long_talk(), [100] * 40, room=1_000, keep=0)
    assert isinstance(found, Cut)
    assert found.kept_tokens == 400
    found = cut(long_talk(), [10_000] * 40, room=1_000, keep=0)
    assert isinstance(found, Cut)
    assert found.kept_tokens == 30_000


def test_I10_parallel_calls_and_results_stay_together() -> None:
    talk = long_talk()
    for preserve in range(1, 8):
        found = cut(talk, [100] * 40, room=1_000_000, keep=0, preserve=preserve)
        assert isinstance(found, Cut)
        assert not isinstance(talk.window.messages[found.end], ToolResultMessage)


def test_I12_nothing_to_cut_says_why() -> None:
    talk = Talk()
    assert cut(talk, [], 1_000) == NoCut("there are no messages yet")
    talk.user("a")
    assert cut(talk, [10], 1_000) == NoCut("there is nothing to compact: the only message stays as it is")
    talk.reply("b")
    assert cut(talk, [10, 10], 1_000) == NoCut("there is nothing to compact: all 2 messages stay as they are")
    talk.append(Compaction("history", "s", 5, "manual", 10, 5))
    assert cut(talk, [5], 1_000) == NoCut("there are no messages behind the last compaction")


def test_an_earlier_compactions_message_is_neither_kept_nor_summarised_as_talk() -> None:
    talk = long_talk(3)
    head = talk.transcript.head
    assert head is not None
    talk.append(Compaction("history", "s", head + 1, "manual", 10, 5))
    for turn in range(6):
        talk.user(f"later {turn}")
    found = cut(talk, [100] * 7, room=100_000, keep=0)
    assert isinstance(found, Cut)
    assert (found.start, found.end) == (1, 3)


def test_a_reminder_that_waited_for_the_first_kept_message_is_not_lost() -> None:
    talk = Talk()
    for turn in range(5):
        talk.user(f"turn {turn}")
        talk.reply("ok")
    talk.append(Reminder("date", "It is Monday."))
    talk.user("newest")
    found = cut(talk, [10] * 11, room=1_000, keep=0, preserve=1)
    assert isinstance(found, Cut)
    talk.append(Compaction("history", "s", found.first_kept, "auto", 10, 5))
    assert len(talk.window.messages) == 2
    assert texts(talk.window).count("It is Monday.") == 1


def test_the_smallest_tail_is_the_newest_message_with_its_results() -> None:
    talk = long_talk(2)
    assert smallest_tail_tokens(talk.window, [100, 7, 8, 9, 100, 7, 8, 9]) == 24
    assert smallest_tail_tokens(Talk().window, []) == 0


@settings(max_examples=examples(10), deadline=None)
@given(transcripts(), st.integers(1, 2_000), st.integers(0, 500), st.integers(0, 5), st.data())
def test_a_cut_of_any_transcript_keeps_the_tail_as_it_was_and_pairs_together(
    transcript: Transcript, room: int, keep: int, preserve: int, data: st.DataObject
) -> None:
    talk = Talk()
    for entry in transcript.branch:
        if not isinstance(entry.payload, Compaction):
            talk.append(entry.payload)
    window = Window(talk.branch)
    sizes = data.draw(st.lists(st.integers(0, 300), min_size=len(window.messages), max_size=len(window.messages)))
    found = find_cut(window, sizes, room_tokens=room, keep_tokens=keep, preserve_recent=preserve)
    if isinstance(found, NoCut):
        assert found.reason
        return
    tail = window.sealed()[found.end :]
    assert tail
    assert not isinstance(tail[0], ToolResultMessage)
    compaction = talk.append(Compaction("history", "s", found.first_kept, "auto", 10, 5))
    talk.append(User((TextBlock("next"),)))
    after = talk.window.messages
    assert talk.window.keys[0][0] == compaction.key
    assert [plain(message) for message in after[1 : 1 + len(tail)]] == [plain(message) for message in tail]
    assert all(text in texts(talk.window) for message in tail for text in riders(message))
    assert paired(after)


def plain(message: Message) -> tuple[type, tuple[object, ...]]:
    """A message without reminders and pins, which may stand at another one after the cut."""
    return type(message), tuple(block for block in message.blocks if not is_rider(block))


def riders(message: Message) -> list[str]:
    return [block.text for block in message.blocks if isinstance(block, TextBlock) and is_rider(block)]


def is_rider(block: object) -> bool:
    return isinstance(block, TextBlock) and block.text.startswith(("<reminder ", "<pinned"))


def paired(messages: list[Message]) -> bool:
    waiting: list[str] = []
    for message in messages:
        if isinstance(message, ToolResultMessage):
            if message.call_id not in waiting:
                return False
            waiting.remove(message.call_id)
        elif waiting:
            return False
        elif isinstance(message, AssistantMessage):
            waiting = [block.id for block in message.blocks if isinstance(block, ToolCall)]
    return not waiting
