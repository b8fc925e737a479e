"""What edits append, on values alone: what moves together, what is refused, and that a restore brings back exactly that."""

from collections.abc import Callable

import pytest

from agent.context.edit_history import rest_before
from agent.context.edits import (
    SHORT_TOKENS,
    Change,
    Edits,
    drop,
    newest_message,
    pin,
    restore,
    shorten,
    unpin,
)
from agent.context.listing import list_pieces
from agent.context.pieces import Action, Piece, Refused
from agent.context.tokens import estimate
from agent.transcript import (
    AttachmentBlock,
    ClearedItem,
    Clearing,
    Compaction,
    Drop,
    Pin,
    ShellBlock,
    Undo,
    User,
)
from agent.window import Window
from providers.types import (
    AssistantMessage,
    ImageBlock,
    TextBlock,
    ToolCall,
    ToolResultMessage,
)
from tests.agent.context.talk import Talk, texts

LONG = "\n".join(f"line {number} of the long result" for number in range(400))


def edits(talk: Talk) -> Edits:
    return Edits(talk.branch, talk.window)


def do(talk: Talk, change: Change | Refused) -> Change:
    assert isinstance(change, Change), change
    for payload in change.payloads:
        talk.append(payload)
    return change


def refused(change: Change | Refused) -> str:
    assert isinstance(change, Refused)
    return change.reason


def calls(talk: Talk) -> list[str]:
    return [b.id for m in talk.window.messages for b in m.blocks if isinstance(b, ToolCall)]


def results(talk: Talk) -> list[str]:
    return [m.call_id for m in talk.window.messages if isinstance(m, ToolResultMessage)]


def pieces(talk: Talk) -> dict[int, Piece]:
    return {p.keys[0]: p for p in list_pieces(talk.branch, talk.window, talk.meter) if p.keys and p.kind != "thinking"}


# --------------------------------------------------------------------------- drop


def test_a_dropped_result_takes_its_call_and_a_dropped_reply_its_results() -> None:
    talk = Talk()
    talk.user("start")
    reply = talk.reply("two reads", ("a", "b"))
    first, second = talk.result("a", "one"), talk.result("b", "two")
    talk.reply("done")
    change = do(talk, drop(edits(talk), [first]))
    assert change == Change((Drop((first,)),), (reply, first))
    assert calls(talk) == results(talk) == ["b"]
    change = do(talk, drop(edits(talk), [reply]))
    assert change == Change((Drop((reply, second)),), (reply, first, second))
    assert calls(talk) == results(talk) == []
    assert "two reads" not in texts(talk.window)
    assert refused(drop(edits(talk), [second])) == f"Entry {second} is dropped already."


def test_what_cannot_be_dropped_is_refused_with_the_reason() -> None:
    talk = Talk()
    first = talk.user("start")
    reply, result = talk.step("a", "one")
    assert "step in progress" in refused(drop(edits(talk), [result]))
    assert "step in progress" in refused(drop(edits(talk), [reply]))
    talk.reply("done")
    assert "has to begin with a message of yours" in refused(drop(edits(talk), [first]))
    assert isinstance(drop(edits(talk), [first, reply, talk.branch[-1].key]), Change), (
        "nothing is left: that is allowed"
    )
    assert "does not stand in the window" in refused(drop(edits(talk), [999]))
    assert refused(drop(edits(talk), [])) == "Nothing is chosen."
    assert "drop" not in pieces(talk)[first].actions
    compaction = talk.append(Compaction("history", "s", reply, "manual", 9, 5)).key
    assert "a summary is undone" in refused(drop(edits(talk), [compaction]))
    assert "does not stand" in refused(drop(edits(talk), [first]))


def test_a_pinned_entry_or_its_partner_is_neither_dropped_nor_shortened_before_it_is_unpinned() -> None:
    talk = Talk()
    talk.user("start")
    reply, result = talk.step("a", LONG)
    talk.reply("done")
    key = talk.append(Pin((result,))).key
    for chosen in (result, reply):
        assert refused(drop(edits(talk), [chosen])) == f"Entry {result} is pinned; unpin first."
    assert "unpin first" in refused(shorten(edits(talk), [result], estimate))
    assert do(talk, unpin(edits(talk), [result])).payloads == (Undo((key,)),)
    do(talk, drop(edits(talk), [result]))
    assert "restore first" in refused(pin(edits(talk), [result]))
    talk.append(Pin((reply,)))
    do(talk, restore(edits(talk), [result]))
    assert f"Entry {reply} is pinned" in refused(drop(edits(talk), [result])), "its call would go"


# --------------------------------------------------------------------------- shorten


def test_a_long_result_keeps_head_and_tail_and_says_where_the_rest_is() -> None:
    talk = Talk()
    talk.user("start")
    _, result = talk.step("a", LONG)
    small = talk.step("b", "short")[1]
    talk.reply("done")
    change = do(talk, shorten(edits(talk), [result], estimate))
    (clearing,) = change.payloads
    assert isinstance(clearing, Clearing) and clearing.reason == "user" and change.keys == (result,)
    (item,) = clearing.items
    assert estimate(item.text) <= SHORT_TOKENS
    assert item.text.startswith("line 0 of") and item.text.endswith("line 399 of the long result")
    assert f"Entry {result} of the session has all of it; `recall` gives it." in item.text
    assert calls(talk) == results(talk) == ["a", "b"]
    assert "shortened already" in refused(shorten(edits(talk), [result], estimate))
    assert "no long text" in refused(shorten(edits(talk), [small], estimate))


def test_of_a_user_message_only_its_long_texts_are_shortened() -> None:
    talk = Talk()
    image = ImageBlock("image/png", "ab" * 32)
    blocks = (TextBlock("short"), TextBlock(LONG), image, ShellBlock("ls", LONG), AttachmentBlock("a.txt", LONG))
    key = talk.append(User(blocks)).key
    do(talk, shorten(edits(talk), [key], estimate))
    first, second, picture, shell, attached = talk.window.messages[0].blocks
    assert (first, picture) == (TextBlock("short"), image)
    for block, start in (
        (second, "line 0"),
        (shell, "I ran this command:\n$ ls"),
        (attached, '<attachment path="a.txt">'),
    ):
        assert isinstance(block, TextBlock) and block.text.startswith(start) and estimate(block.text) <= SHORT_TOKENS
    assert isinstance(attached, TextBlock) and attached.text.endswith("</attachment>")


def test_replies_and_results_with_images_are_not_shortened() -> None:
    talk = Talk()
    talk.user("start")
    reply = talk.reply(LONG)
    assert "no long text" in refused(shorten(edits(talk), [reply], estimate))


# --------------------------------------------------------------------------- restore


def test_only_the_chosen_keys_come_back_and_the_rest_of_the_same_entry_stays_as_it_is() -> None:
    talk = Talk()
    talk.user("start")
    keys = [talk.step(name, f"{name} {LONG}")[1] for name in "abc"]
    talk.reply("done")
    before = list(talk.window.messages)
    dropped = talk.append(Drop((keys[0], keys[1]))).key
    cleared = talk.append(Clearing((ClearedItem(keys[1], "[1]"), ClearedItem(keys[2], "[2]")), "clear")).key
    change = do(talk, restore(edits(talk), [keys[1]]))
    rest = (Drop((keys[0],)), Clearing((ClearedItem(keys[2], "[2]"),), "clear"))
    assert change == Change((*rest, Undo((dropped, cleared))), (keys[1],))
    assert calls(talk) == ["b", "c"] and "[2]" in texts(talk.window) and "[1]" not in texts(talk.window)
    place = len(talk.branch) - 1
    assert rest_before(talk.branch, place) == (talk.branch[-3].key, talk.branch[-2].key)
    do(talk, restore(edits(talk), [keys[0], keys[2]]))
    assert rest_before(talk.branch, len(talk.branch) - 1) == ()
    assert talk.window.messages == before
    assert "nothing to restore" in refused(restore(edits(talk), keys))


def test_a_reply_comes_back_with_the_results_it_took_along_and_a_result_with_its_reply() -> None:
    talk = Talk()
    talk.user("start")
    reply = talk.reply("two", ("a", "b"))
    first, second = talk.result("a", "one"), talk.result("b", "two")
    talk.reply("done")
    do(talk, drop(edits(talk), [second]))
    do(talk, drop(edits(talk), [reply]))
    change = do(talk, restore(edits(talk), [reply]))
    assert change.keys == (reply, first) and calls(talk) == ["a"], "what was dropped by itself stays dropped"
    do(talk, drop(edits(talk), [reply]))
    assert do(talk, restore(edits(talk), [second])).keys == (reply, second)
    assert calls(talk) == results(talk) == ["b"]


def test_a_clearing_that_a_later_one_overrode_does_not_come_out_again() -> None:
    talk = Talk()
    talk.user("start")
    one, two = talk.step("a", LONG)[1], talk.step("b", LONG)[1]
    talk.reply("done")
    talk.append(Clearing((ClearedItem(one, "[1]"), ClearedItem(two, "[old]")), "budget"))
    talk.append(Clearing((ClearedItem(two, "[new]"),), "clear"))
    do(talk, restore(edits(talk), [one]))
    assert "[new]" in texts(talk.window) and "[old]" not in texts(talk.window) and "[1]" not in texts(talk.window)


def test_a_fresh_drop_is_not_taken_for_what_a_restore_left() -> None:
    talk = Talk()
    talk.user("start")
    one, two = talk.step("a", "one")[1], talk.step("b", "two")[1]
    talk.reply("done")
    do(talk, drop(edits(talk), [one, two]))
    do(talk, restore(edits(talk), [one, two]))
    do(talk, drop(edits(talk), [one]))
    do(talk, restore(edits(talk), [one]))
    assert rest_before(talk.branch, len(talk.branch) - 1) == ()


# --------------------------------------------------------------------------- pin


def test_pins_name_messages_and_the_newest_typed_one_is_found() -> None:
    talk = Talk()
    assert newest_message(talk.branch) is None
    key = talk.user("mine")
    talk.append(User((TextBlock("go on"),), synthetic=True))
    assert newest_message(talk.branch) == key
    change = do(talk, pin(edits(talk), [key]))
    assert change.payloads == (Pin((key,)),) and "next compaction" in change.note
    assert refused(pin(edits(talk), [key])) == f"Entry {key} is pinned already."
    assert "cannot be pinned" in refused(pin(edits(talk), [1])), "a setting"
    assert refused(unpin(edits(talk), [999])) == "It is not pinned."
    other = talk.user("other")
    assert do(talk, pin(edits(talk), [key, other])).payloads == (Pin((other,)),)
    snapshot = talk.append(Pin(text="x")).key
    assert do(talk, unpin(edits(talk), [snapshot, key, other])).keys == (key, other, snapshot)
    assert not edits(talk).pins


# --------------------------------------------------------------------------- all of them

ACTIONS: dict[Action, Callable[[Edits, list[int]], Change | Refused]] = {
    "drop": drop,
    "shorten": lambda found, keys: shorten(found, keys, estimate),
    "restore": restore,
    "pin": pin,
    "unpin": unpin,
}


def check_pairs(window: Window) -> None:
    open_ids: list[str] = []
    for message in window.sealed():
        if isinstance(message, ToolResultMessage):
            assert open_ids and message.call_id == open_ids.pop(0)
            continue
        assert not open_ids and message.blocks
        if isinstance(message, AssistantMessage):
            open_ids = [block.id for block in message.blocks if isinstance(block, ToolCall)]
    assert not open_ids


def test_a_compaction_from_a_message_on_leaves_the_calls_before_it_answered() -> None:
    talk = Talk()
    talk.user("start")
    talk.reply("two", ("a", "b"))
    talk.result("a", "one")
    key = talk.user("from here")
    talk.reply("done")
    talk.append(Compaction("history", "s", 0, "manual", 9, 5, first_replaced=key))
    check_pairs(talk.window)
    assert results(talk) == ["a", "b"] and texts(talk.window).endswith("history")


@pytest.mark.parametrize("action", ["drop", "shorten", "pin"])
def test_undone_the_same_messages_stand_there_again(action: Action) -> None:
    talk = Talk()
    talk.user("start")
    _, result = talk.step("a", LONG)
    talk.reply("done")
    before = list(talk.window.messages)
    do(talk, ACTIONS[action](edits(talk), [result]))
    talk.append(Undo((talk.branch[-1].key,)))
    assert talk.window.messages == before
