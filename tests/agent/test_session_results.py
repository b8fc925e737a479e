"""What comes back from tools, in the whole agent: arguments that do not fit, outputs too long for the window, spills."""

import json
import re
import shutil
from pathlib import Path

import pytest

from agent.context.tokens import Counter
from agent.store import sessions
from agent.transcript import Assistant, Clearing, Result
from providers.types import TextBlock, ToolCall
from tests.fakes.session_kit import Desk, Talk
from tests.fakes.wires import Wire

BAD = {
    "empty text": "",
    "null": "null",
    "list": "[]",
    "no JSON": '{"path": ',
    "two values": "{} {}",
    "wrong type": '{"path": ["a"]}',
    "missing": "{}",
    "extra": '{"path": "a", "mode": "x"}',
    "2 MB": '{"path": "a", "content": "' + "x" * 2_000_000 + '"}',
    "500 deep": '{"path": ' + '{"a":' * 500 + "1" + "}" * 501,
    "5,000 open brackets": "[" * 5_000,
}


@pytest.fixture(scope="module")
def counter() -> Counter:
    counter = Counter()
    counter.load()
    return counter


async def test_T83_no_arguments_can_break_a_session(wire: Wire, project: Path, tmp_path: Path) -> None:
    desk = Desk(wire, project, tmp_path / "home", window_tokens=4_000_000)
    desk.wire.reply(tools=[("read", text) for text in BAD.values()])
    desk.wire.reply("I see.")
    async with desk.open() as talk:
        assert (await talk.session.prompt("read")).reason == "done"
        assert [result.is_error for result in talk.results] == [True] * len(BAD)
        for result in talk.results:
            assert '"required":["path"]' in result.text and len(result.text) < 1_500
    desk.wire.reply("Still here.")
    async with desk.open(talk.path) as later:
        assert (await later.session.prompt("go on")).reason == "done"
    (reply, *_) = desk.payloads(Assistant)
    kept = [block.arguments for block in reply.blocks if isinstance(block, ToolCall)]
    assert kept[1:] == list(BAD.values())[1:]
    assert kept[0] in ("", "{}")


async def test_T83_two_calls_with_one_id_are_two_calls(desk: Desk) -> None:
    (desk.project / "a").write_text("first")
    (desk.project / "b").write_text("second")
    desk.wire.reply(
        tools=[("read", {"path": "a"}, "same"), ("read", {"path": "b"}, "same"), ("read", {"path": "c"}, "")]
    )
    desk.wire.reply("I see.")
    async with desk.open() as talk:
        assert (await talk.session.prompt("read")).reason == "done"
    assert ["first" in result.text for result in talk.results[:2]] == [True, False]
    assert "second" in talk.results[1].text
    assert len({result.call_id for result in talk.results}) == 3


# --------------------------------------------------------------------------- long outputs


def marker(talk: Talk) -> tuple[int, Path]:
    """The entry and the file that the marker of the newest result names."""
    found = re.search(r"the whole output is entry (\d+), file (\S+?\.txt)", talk.results[-1].text)
    assert found is not None, talk.results[-1].text[-500:]
    return int(found[1]), Path(found[2])


async def test_a_long_output_is_capped_and_the_whole_is_a_file_that_can_be_read(desk: Desk, counter: Counter) -> None:
    desk.wire.reply(tools=[("bash", {"command": "seq 1 100000"})])
    desk.wire.reply("Long.")
    async with desk.open() as talk:
        await talk.session.prompt("count")
        text = talk.results[0].text
        assert 10_000 < counter.count(text) <= 16_000 + 200
        assert text.startswith("1\n2\n3\n") and "\n99999\n100000\n[exit code 0]" in text
        key, path = marker(talk)
        assert key == talk.results[0].key
        assert path.read_text().splitlines()[69_999] == "70000"
        assert oct(path.stat().st_mode & 0o777) == "0o600"
    (result,) = desk.payloads(Result)
    assert result.spill is not None and result.spill.size_bytes == path.stat().st_size
    shutil.rmtree(path.parent)
    # In ask mode reading it asks nobody, and a new process makes it anew.
    desk.wire.reply(tools=[("read", {"path": str(path), "offset": 70000, "limit": 1})])
    desk.wire.reply(tools=[("grep", {"pattern": "^7777$", "path": str(path)})])
    desk.wire.reply("Found.")
    async with desk.open(talk.path, mode="ask") as later:
        assert (await later.session.prompt("look")).reason == "done"
        read, grep = later.results
        assert read.text.startswith("70000\t70000") and not read.is_error
        assert "7777" in grep.text and not grep.is_error


@pytest.mark.parametrize(
    "command", ["head -c 400000 /dev/urandom | base64", "printf '漢字かな交じり文%.0s' $(seq 1 20000)"]
)
async def test_dense_text_is_capped_by_its_tokens_too(one_desk: Desk, counter: Counter, command: str) -> None:
    one_desk.wire.reply(tools=[("bash", {"command": command})])
    one_desk.wire.reply("Long.")
    async with one_desk.open() as talk:
        await talk.session.prompt("go")
    assert 8_000 < counter.count(talk.results[0].text) <= 16_000 + 200


async def test_a_smaller_window_caps_at_a_fifth_of_it_and_a_step_at_a_quarter(desk: Desk, counter: Counter) -> None:
    desk.env["CLAW_CONTEXT_WINDOW"] = "40000"  # effective 32,000
    desk.wire.reply(tools=[("bash", {"command": f"seq {n}0000 {n}9999"}) for n in range(1, 4)])
    desk.wire.reply("Long.")
    async with desk.open() as talk:
        await talk.session.prompt("count")
        sizes = [counter.count(result.text) for result in talk.results]
        assert all(5_000 < size <= 6_400 + 200 for size in sizes), sizes
    (clearing,) = desk.payloads(Clearing)
    assert clearing.reason == "budget" and len(clearing.items) == 3
    sent = [text for text in desk.wire.texts(desk.bodies()[-1]) if "entry" in text.lower()]
    assert sum(map(counter.count, sent)) <= 8_000 + 300
    # The record still has what was shown.
    texts = [block.text for result in desk.payloads(Result) for block in result.blocks if isinstance(block, TextBlock)]
    assert texts == [result.text for result in talk.results]


async def test_the_blob_of_a_spill_is_in_the_session_file_and_in_a_fork(one_desk: Desk) -> None:
    one_desk.wire.reply(tools=[("bash", {"command": "seq 1 100000"})])
    one_desk.wire.reply("Long.")
    async with one_desk.open() as talk:
        await talk.session.prompt("count")
        _, path = marker(talk)
    whole = path.read_bytes()
    one_desk.wire.reply("Forked.")
    async with one_desk.open(talk.path, fork=True) as fork:
        await fork.session.prompt("go on")
    for each in (talk, fork):
        (result,) = one_desk.payloads(Result, each.session.id)
        store, _ = sessions.open_session(each.path, lambda text: None)
        assert result.spill is not None and store.blob(result.spill.sha256) == whole
        store.close()


async def test_a_result_that_fits_is_kept_as_it_is(one_desk: Desk) -> None:
    (one_desk.project / "a.json").write_text(json.dumps(list(range(50))))
    one_desk.wire.reply(tools=[("read", {"path": "a.json"})])
    one_desk.wire.reply("Read.")
    async with one_desk.open() as talk:
        await talk.session.prompt("read")
    (result,) = one_desk.payloads(Result)
    assert result.spill is None and result.blocks == (TextBlock(talk.results[0].text),)
