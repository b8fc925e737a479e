import pytest

from agent.context.budget import ContextSettings
from agent.context.collapsing import collapse, collapsed_line
from agent.context.cut import Cut, find_cut
from agent.transcript import Compaction, Result
from providers.types import TextBlock, ToolResultMessage
from tests.agent.context.reads import call, change, listing, read
from tests.agent.context.talk import Talk, limits

FEW = ContextSettings(keep_recent_tokens=1, preserve_recent=2)


def talk(rounds: int, tool: str = "read") -> Talk:
    made = Talk()
    made.user("go")
    for n in range(rounds):
        made.append(Result(call(made, tool), tool, (TextBlock(listing(1, 30)),), title=f"src/{n}.py"))
    made.reply("done")
    return made


def collapsed(made: Talk, settings: ContextSettings = FEW, spared: frozenset[int] = frozenset()) -> dict[int, str]:
    freeing = collapse(made.transcript.branch, made.window, made.meter, limits(), settings, spared)
    if freeing is None:
        return {}
    assert freeing.clearing.reason == "collapse"
    before = sum(made.meter.all_message_tokens())
    made.append(freeing.clearing)
    assert before - sum(made.meter.all_message_tokens()) == freeing.freed_tokens
    return {item.key: item.text for item in freeing.clearing.items}


def results(made: Talk) -> list[int]:
    return [keys[0] for m, keys in zip(made.window.messages, made.window.keys, strict=True)
            if isinstance(m, ToolResultMessage)]  # fmt: skip


@pytest.mark.parametrize("tool", ["read", "grep", "glob", "recall"])
def test_K8_old_results_of_read_only_calls_become_one_line(tool: str) -> None:
    made = talk(6, tool)
    keys = results(made)
    lines = collapsed(made)
    assert list(lines) == keys[:5]  # the newest round and the last reply are the two messages that stay
    assert lines[keys[0]] == f"[{tool} src/0.py: 30 lines, collapsed; entry {keys[0]} of the session has them]"
    assert results(made) == keys  # every call still has its result
    assert collapsed(made) == {}


@pytest.mark.parametrize("tool", ["bash", "edit", "write", "task"])
def test_K8_what_may_have_had_an_effect_stays(tool: str) -> None:
    assert collapsed(talk(6, tool)) == {}


def test_K8_a_run_ends_with_a_call_that_is_not_read_only_and_goes_on_behind_it() -> None:
    made = Talk()
    made.user("go")
    first = read(made)
    edit = change(made)
    second = read(made, "src/b.py")
    made.user("more")
    made.reply("done")
    made.reply("done")
    assert list(collapsed(made)) == [first, second]
    assert edit in results(made)


@pytest.mark.parametrize(
    "settings", [ContextSettings(), FEW, ContextSettings(keep_recent_tokens=900, preserve_recent=1)]
)
def test_K8_the_tail_is_the_one_that_a_compaction_would_keep(settings: ContextSettings) -> None:
    made = talk(14)
    cut = find_cut(
        made.window,
        made.meter.all_message_tokens(),
        room_tokens=limits().trigger - made.meter.floor_tokens,
        keep_tokens=settings.keep_recent_tokens,
        preserve_recent=settings.preserve_recent,
    )
    assert isinstance(cut, Cut)
    lines = collapsed(made, settings)
    assert lines
    assert max(lines) < cut.first_kept
    assert set(lines) == {key for key in results(made) if key < cut.first_kept}


def test_nothing_to_cut_is_nothing_to_collapse() -> None:
    made = Talk()
    assert collapsed(made) == {}
    made.user("go")
    assert collapsed(made) == {}
    read(made)
    assert collapsed(made, ContextSettings()) == {}


def test_what_is_spared_or_short_stays() -> None:
    made = talk(6)
    keys = results(made)
    assert list(collapsed(made, spared=frozenset(keys[:3]))) == keys[3:5]
    short = Talk()
    short.user("go")
    for _ in range(6):
        short.append(Result(call(short, "read"), "read", (TextBlock("1\tx"),), title="a"))
    assert collapsed(short) == {}


def test_behind_a_compaction_its_message_is_left_alone() -> None:
    made = talk(6)
    keys = results(made)
    made.append(Compaction("history " * 50, "s", keys[2] - 1, "auto", 10, 5))
    assert list(collapsed(made)) == keys[2:5]


def test_the_line_is_one_line_however_the_title_looks() -> None:
    result = Result("c", "grep", (TextBlock("one"),), title="a\nb " + "x" * 500)
    line = collapsed_line(7, result)
    assert "\n" not in line
    assert len(line) < 260
    assert line.endswith("1 line, collapsed; entry 7 of the session has them]")
