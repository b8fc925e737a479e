from collections.abc import Callable

import pytest
from msgspec.structs import replace

from agent.context.snipping import snip
from agent.context.superseded import shown_by
from agent.transcript import ClearedItem, Clearing, Result, Spill
from providers.types import ImageBlock, TextBlock
from tests.agent.context.reads import change, failure, listing, read
from tests.agent.context.talk import Talk

LONG = "the same long error text, which says at length what did not work\n" * 10

UNCHANGED = (
    "[Unchanged since you read it (entry 5): the whole of src/a.py stands above. "
    "If it was cleared since, read it again.]"
)


def talk() -> Talk:
    made = Talk()
    made.user("go")
    return made


def snipped(made: Talk, spared: frozenset[int] = frozenset()) -> dict[int, str]:
    """Key → what stands instead; everything so far was sent."""
    made.reply("seen")
    freeing = snip(made.transcript.branch, made.window, made.meter, spared)
    if freeing is None:
        return {}
    assert freeing.clearing.reason == "snip"
    before = sum(made.meter.all_message_tokens())
    made.append(freeing.clearing)
    assert before - sum(made.meter.all_message_tokens()) == freeing.freed_tokens
    return {item.key: item.text for item in freeing.clearing.items}


def test_K8_a_read_that_a_later_one_shows_anew_is_superseded() -> None:
    made = talk()
    old = read(made)
    other = read(made, "src/b.py")
    new = read(made, version="2")
    assert snipped(made) == {old: f"[Superseded: entry {new} has a newer copy of src/a.py]"}
    assert made.meter.own_tokens(other) == made.meter.own_tokens(new) > 100


def test_K8_of_three_copies_the_newest_stays_and_is_the_one_that_is_named() -> None:
    made = talk()
    keys = [read(made, version=version) for version in "121"]
    assert snipped(made) == dict.fromkeys(keys[:2], f"[Superseded: entry {keys[2]} has a newer copy of src/a.py]")
    assert snipped(made) == {}  # once is enough


@pytest.mark.parametrize("tool", ["edit", "write"])
def test_K8_a_read_of_a_file_that_was_changed_later_is_superseded(tool: str) -> None:
    made = talk()
    old = read(made)
    changed = change(made, tool=tool)
    change(made, tool=tool, version="3")
    assert snipped(made) == {old: f"[Superseded: src/a.py was changed later, by entry {changed + 2}]"}
    new = read(made, version="3")
    assert snipped(made) == {}
    assert made.meter.own_tokens(new) > 100


def test_K8_a_change_before_the_read_or_one_that_failed_supersedes_nothing() -> None:
    made = talk()
    change(made)
    read(made)
    change(made, failed=True)
    change(made, "src/b.py")
    assert snipped(made) == {}


@pytest.mark.parametrize(
    ("older", "newer", "gone"),
    [
        (listing(5, 30), listing(1, 40), True),
        (listing(5, 30, "[lines 5-30 of 40; go on with offset 31]"), listing(5, 30, "[lines 5-30 of 40]"), True),
        (listing(5, 30, "[lines 5-30 of 40]"), listing(1, 29, "[lines 1-29 of 40]"), False),
        (listing(5, 30, "[lines 5-30 of 40]"), listing(6, 40), False),
        (listing(1, 40), listing(1, 20, "[lines 1-20 of 40; go on with offset 21]"), False),
        (listing(1, 40), "[src/a.py is empty]", True),
        (listing(1, 40, "[encoding: Latin-1]"), listing(1, 40, "[encoding: Latin-1]"), True),
        (listing(1, 40), UNCHANGED, False),
    ],
)
def test_K8_only_a_copy_that_shows_the_same_lines_supersedes(older: str, newer: str, gone: bool) -> None:
    made = talk()
    old = read(made, text=older)
    read(made, text=newer)
    assert (old in snipped(made)) is gone


def test_a_part_of_a_file_is_named_by_the_file() -> None:
    made = talk()
    text = listing(5, 30, "[lines 5-30 of 40]")
    old = read(made, text=text, title="src/a (old).py (lines 5-30)")
    new = read(made)
    assert snipped(made) == {old: f"[Superseded: entry {new} has a newer copy of src/a (old).py]"}


def _spilled(result: Result) -> Result:
    return replace(result, spill=Spill("0" * 64, 10))


def _with_image(result: Result) -> Result:
    return replace(result, blocks=(*result.blocks, ImageBlock("image/png", "0" * 64)))


def _failed(result: Result) -> Result:
    return replace(result, is_error=True)


def _of_bash(result: Result) -> Result:
    return replace(result, tool="bash")


@pytest.mark.parametrize("otherwise", [_spilled, _with_image, _failed, _of_bash])
def test_what_is_no_whole_listing_shows_nothing(otherwise: Callable[[Result], Result]) -> None:
    made = talk()
    result = made.transcript[read(made)].payload
    assert isinstance(result, Result)
    shown = shown_by(result)
    assert shown is not None
    assert (shown.first, shown.last, shown.whole) == (1, 40, True)
    assert shown_by(otherwise(result)) is None


def test_K8_all_but_the_newest_of_identical_failures_become_one_line() -> None:
    made = talk()
    keys = [failure(made, LONG) for _ in range(4)]
    line = f"[Failed with the same error as entry {keys[-1]}, which shows it]"
    assert snipped(made) == dict.fromkeys(keys[:-1], line)
    failed = [m for m in made.window.messages if getattr(m, "is_error", False)]
    assert len(failed) == 4  # calls and results stay


def test_K8_another_tool_other_arguments_another_error_or_a_success_is_not_the_same() -> None:
    made = talk()
    failure(made, LONG)
    failure(made, LONG, arguments='{"command": "make all"}')
    failure(made, LONG + "!")
    failure(made, LONG, tool="grep")
    made.append(replace(_result(made, failure(made, LONG + "?")), call_id="none"))
    for _ in range(2):
        made.step(f"s{len(made.transcript)}", LONG)
    assert snipped(made) == {}


def _result(made: Talk, key: int) -> Result:
    payload = made.transcript[key].payload
    assert isinstance(payload, Result)
    return payload


def test_a_short_failure_stays_since_the_line_would_not_be_shorter() -> None:
    made = talk()
    for _ in range(3):
        failure(made, "exit code 1")
    assert snipped(made) == {}


def test_what_was_not_sent_yet_stays_and_supersedes_all_the_same() -> None:
    made = talk()
    old = read(made)
    made.reply("seen")
    new = read(made, version="2")
    freeing = snip(made.transcript.branch, made.window, made.meter)
    assert freeing is not None
    assert [item.key for item in freeing.clearing.items] == [old]
    assert str(new) in freeing.clearing.items[0].text


def test_what_is_spared_cleared_or_dropped_stays() -> None:
    made = talk()
    first, second = read(made), read(made, version="2")
    read(made, version="3")
    made.append(Clearing((ClearedItem(first, "short"),), "user"))
    assert snipped(made, frozenset({second})) == {}


def test_a_copy_that_does_not_stand_in_the_window_supersedes_nothing() -> None:
    made = talk()
    read(made)
    newest = read(made, version="2")
    made.append(Clearing((ClearedItem(newest, "short"),), "user"))
    assert snipped(made) == {}


def test_a_text_block_of_another_shape_is_not_taken_for_a_listing() -> None:
    for text in ("", "no number", "1 x", "[note]\n[other]", "12\tx\nplain"):
        result = Result("c", "read", (TextBlock(text),), title="a")
        assert shown_by(result) is None
