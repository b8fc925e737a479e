"""What pins carry through compactions, on values alone; the whole way through a session is in tests/agent/test_editing.py."""

import pytest
from hypothesis import given, settings

from agent.context.pins import live_pins, pinned_keys, pinned_texts, pinned_tokens, pins_refusal
from agent.context.tokens import Counter
from agent.transcript import (
    ClearedItem,
    Clearing,
    Compaction,
    Drop,
    Entry,
    Pin,
    PinnedText,
    Reminder,
    Transcript,
    Undo,
    User,
)
from agent.window import Window, window
from providers.types import ImageBlock, TextBlock, ThinkingBlock
from tests.agent.context.talk import Talk, texts
from tests.agent.strategies import transcripts
from tests.examples import examples


def compact(talk: Talk, first_kept: int, first_replaced: int = 0) -> tuple[PinnedText, ...]:
    """Append a compaction that carries what it has to."""
    pinned = pinned_texts(talk.branch, talk.window, first_kept, first_replaced=first_replaced)
    talk.append(Compaction("history", "s", first_kept, "manual", 10, 5, first_replaced=first_replaced, pinned=pinned))
    return pinned


def test_pinned_entries_come_word_for_word_with_key_and_role_in_the_order_of_the_pins() -> None:
    talk = Talk()
    user = talk.user("Keep `this`:\n```py\nx = '</pinned>'\n```")
    reply, result = talk.step("c1", "line 1\nline 2")
    later, first = talk.append(Pin((result,))).key, talk.append(Pin((user,))).key
    calls = talk.append(Pin((reply, result))).key
    end = talk.user("go on")
    pinned = compact(talk, end)
    assert [item.pin for item in pinned] == [later, first, calls]
    assert pinned[0].text == f"Pinned, entry {result} (result of read), word for word:\n```\nline 1\nline 2\n```"
    assert "\nKeep `this`:\n```py\nx = '</pinned>'\n```\n````" in pinned[1].text
    assert f"entry {user} (user)" in pinned[1].text
    assert '[calls read {"path": "a"}]' in pinned[2].text and pinned[2].text.endswith(pinned[0].text)
    assert texts(talk.window).count("line 1\nline 2") == 2
    assert talk.window.keys[0][1:] == (later, first, calls)


def test_what_still_stands_is_not_carried_twice_unless_it_was_shortened() -> None:
    talk = Talk()
    old = talk.user("old")
    kept = talk.user("kept")
    cleared = talk.user("cut " * 50)
    talk.append(Clearing((ClearedItem(cleared, "cut…"),), "user"))
    pins = [talk.append(Pin((key,))).key for key in (old, kept, cleared)]
    assert [item.pin for item in pinned_texts(talk.branch, talk.window, kept)] == [pins[0], pins[2]]
    assert pinned_texts(talk.branch, talk.window, talk.branch[-1].key + 1) != ()


def test_a_snapshot_that_waits_for_its_message_or_stands_is_not_carried() -> None:
    talk = Talk()
    talk.user("first")
    talk.reply("answer")
    pin = talk.append(Pin(path="a.py", text="x = 1", lines=(3, 4))).key
    assert pinned_texts(talk.branch, talk.window, pin + 1) == ()
    host = talk.user("second")
    assert pinned_texts(talk.branch, talk.window, host) == ()
    talk.reply("answer")
    (carried,) = pinned_texts(talk.branch, talk.window, talk.branch[-1].key + 1)
    assert carried == PinnedText(pin, '<pinned path="a.py" lines="3-4">\nx = 1\n</pinned>')
    assert carried.text in texts(talk.window), "the same bytes as before the compaction"


def test_unpinned_dropped_and_nothing_pinned_give_nothing() -> None:
    talk = Talk()
    first, second = talk.user("first"), talk.user("second")
    assert pinned_texts(talk.branch, talk.window, second + 1) == ()
    pin = talk.append(Pin((first,))).key
    talk.append(Pin((second,)))
    undo = talk.append(Undo((pin,))).key
    talk.append(Drop((second,)))
    assert pinned_texts(talk.branch, talk.window, undo + 2) == ()
    assert pinned_keys(talk.branch) == {second} and len(live_pins(talk.branch)) == 1
    talk.append(Undo((undo,)))
    assert pinned_keys(talk.branch) == {first, second}


def test_images_are_named_and_thinking_is_left_out() -> None:
    talk = Talk()
    picture = talk.append(User((TextBlock("look"), ImageBlock("image/png", "ab" * 32)))).key
    thought = talk.reply("said", extra=(ThinkingBlock("secret thought", "sig"),))
    note = talk.append(Reminder("date", "Monday")).key
    talk.append(Pin((picture, thought, note)))
    (item,) = compact(talk, talk.branch[-1].key + 1)
    assert "look\n[image abababababab]" in item.text and "said" in item.text and "(reminder date)" in item.text
    assert "secret" not in item.text


@pytest.mark.parametrize("ranged", [False, True])
def test_recorded_texts_are_taken_over_by_every_later_compaction(ranged: bool) -> None:
    talk = Talk()
    key = talk.user("the rule")
    pin = talk.append(Pin((key,))).key
    other = talk.user("more")
    talk.append(Compaction("history", "s", other, "auto", 10, 5, pinned=(PinnedText(pin, "as it was told"),)))
    for _ in range(3):
        end = talk.user("and more")
        pinned = compact(talk, end, first_replaced=end if ranged else 0)
        # A compaction of a range leaves the first one where it stands, with what that carries.
        assert pinned == (() if ranged else (PinnedText(pin, "as it was told"),))
        assert texts(talk.window).count("as it was told") == 1


def test_a_range_carries_what_it_takes_away_and_the_undo_of_a_compaction_renders_the_same() -> None:
    talk = Talk()
    talk.user("start")
    key = talk.user("in the range")
    pin = talk.append(Pin((key,))).key
    first = compact(talk, 0, first_replaced=key)
    assert [item.pin for item in first] == [pin]
    inner = talk.branch[-1].key
    assert compact(talk, inner + 1) == first
    talk.append(Undo((talk.branch[-1].key, inner)))
    assert compact(talk, talk.branch[-1].key + 1) == first


def test_the_tokens_of_pins_are_those_of_their_texts() -> None:
    talk = Talk()
    count = Counter().count
    assert pinned_tokens(talk.branch, count) == 0
    key = talk.user("word " * 100)
    talk.append(Pin((key,)))
    one = pinned_tokens(talk.branch, count)
    assert one > 125
    coming = Entry(99, 98, 0, Pin(text="word " * 100))
    assert 125 < pinned_tokens(talk.branch, count, [coming]) < 150
    talk.append(Pin(text="word " * 100))
    assert pinned_tokens(talk.branch, count) == one + pinned_tokens(talk.branch, count, [coming])


@pytest.mark.parametrize(
    ("pinned", "new", "room", "budget", "said"),
    [
        (0, 500, 1_000, None, None),
        (0, 501, 1_000, None, "half of the room"),
        (400, 101, 1_000, None, "Unpin something"),
        (0, 500, 1_000, 500, None),
        (0, 301, 1_000, 300, "pin_tokens"),
        (0, 501, 1_000, 9_000, "half of the room"),
        (0, 1, -50, None, "they may have 0"),
        (0, 1, 1_000, 0, "they may have 0"),
    ],
)
def test_pins_that_alone_would_not_fit_are_refused(
    pinned: int, new: int, room: int, budget: int | None, said: str | None
) -> None:
    refusal = pins_refusal(pinned, new, room, budget)
    assert refusal is None if said is None else said in (refusal or "")


@settings(max_examples=examples(15), deadline=None)
@given(transcripts())
def test_every_live_pin_stands_or_is_carried_and_twice_gives_the_same(transcript: Transcript) -> None:
    branch = list(transcript.branch)
    if not branch:
        return
    first_kept = branch[-1].key + 1
    carried = pinned_texts(branch, window(branch), first_kept)
    payload = Compaction("history", "s", first_kept, "auto", 10, 5, pinned=carried)
    after = [*branch, Entry(first_kept, branch[-1].key, 0, payload)]
    order = [item.pin for item in carried]
    assert order == sorted(set(order)) and set(order) <= {pin.key for pin in live_pins(branch)}
    said = texts(Window([*after, Entry(first_kept + 1, first_kept, 0, User((TextBlock("-"),)))]))
    assert all(item.text in said for item in carried)
    assert pinned_texts(after, window(after), first_kept + 1) == carried or not set(order)
