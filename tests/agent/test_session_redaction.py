"""Secrets through whole sessions against the fake server: what the model, the screen and the disk get of them."""

import asyncio
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.context.pieces import Edit
from agent.events import Notice, ToolFinished, ToolProgress
from agent.transcript import Result, ShellBlock, User
from tests.agent.processes.marks import comes_true
from tests.agent.test_session_compaction import SUMMARY
from tests.fakes.model_server import ModelServer
from tests.fakes.secret_keys import made_keys
from tests.fakes.session_kit import Desk, Talk, make_project
from tests.fakes.wires import AnthropicSide

KEYS = made_keys(6)
KEY, OTHER, THIRD = KEYS["GitHub"], KEYS["Anthropic"], KEYS["npm"]
VARIABLE = "word-of-9-letters"


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    files = {
        "keys.txt": f"a {KEY}\nb {OTHER}\n",
        "conf.ini": f"[x]\nkey = {KEY}\nold = 1\n",
        "m.md": "see [redacted 1]\nold\n",
        "v.txt": f"{VARIABLE}\n",
        "t.txt": f"{THIRD}\n",
    }
    with ModelServer() as server:
        desk = Desk(AnthropicSide(server), make_project(tmp_path / "project", files), tmp_path / "home")
        desk.env["SERVICE_PASSWORD"] = VARIABLE
        yield desk


def texts(talk: Talk) -> list[str]:
    return [event.text for event in talk.of(ToolFinished)]


def on_disk(desk: Desk) -> bytes:
    files = [path for path in (desk.home).rglob("*") if path.is_file() and "config" not in path.parts]
    return b"".join(path.read_bytes() for path in files)


async def test_R50_one_number_for_one_secret_wherever_it_comes_from_and_after_a_resume(desk: Desk) -> None:
    async with desk.open() as talk:
        desk.wire.reply(
            tools=[
                ("bash", {"command": "cat keys.txt v.txt; head -c 9 t.txt; sleep 0.1; tail -c +10 t.txt"}),
                ("read", {"path": "conf.ini"}),
                ("grep", {"pattern": "^key|^[ab] ", "output": "content"}),
            ]
        )
        desk.wire.reply("Seen.")
        await talk.session.prompt("look")
        shell, read, found = texts(talk)
        assert shell.startswith("a [redacted 1]\nb [redacted 2]\n[redacted 3]\n[redacted 4]\n")
        assert "key = [redacted 1]" in read and "[redacted 1]" in found and "[redacted 2]" in found
        assert shell.count("claw took") == 1 and "claw took" not in read + found
        assert [event.redacted for event in talk.of(ToolFinished)] == [4, 1, 2]
        live = "".join(event.text for event in talk.of(ToolProgress))
        assert "[redacted 4]" in live and THIRD[9:20] not in live
        path = talk.path
    assert [bool(item.fingerprint) for item in desk.payloads(Result)[0].redacted] == [True, True, False, True]
    (desk.project / "g.txt").write_text(f"{KEYS['Groq']}\n")
    async with desk.open(path) as talk:
        desk.wire.reply(tools=[("bash", {"command": "cat g.txt v.txt keys.txt"})])
        desk.wire.reply("Seen again.")
        await talk.session.prompt("again")
        assert texts(talk)[0].startswith("[redacted 5]\n[redacted 6]\na [redacted 1]\nb [redacted 2]\n")
    sent = b"".join(request.body for request in desk.wire.requests)
    for secret in (KEY, OTHER, THIRD, VARIABLE, KEYS["Groq"]):
        assert secret.encode() not in sent + on_disk(desk), secret


async def test_R50_markers_are_refused_by_write_and_edit_with_what_to_do(desk: Desk) -> None:
    async with desk.open() as talk:
        desk.wire.reply(tools=[("read", {"path": "conf.ini"}), ("read", {"path": "m.md"})])
        desk.wire.reply(
            tools=[
                ("write", {"path": "conf.ini", "content": "[x]\nkey = [redacted 1]\nold = 2\n"}),
                ("write", {"path": "new.txt", "content": "the key is [redacted 1]\n"}),
                ("edit", {"path": "conf.ini", "edits": [{"old": "key = [redacted 1]\nold = 1", "new": "old = 2"}]}),
                ("edit", {"path": "conf.ini", "edits": [{"old": "old = 1", "new": "old = [redacted 1]"}]}),
                ("edit", {"path": "conf.ini", "edits": [{"old": "old = 1", "new": "old = 2"}]}),
                ("edit", {"path": "m.md", "edits": [{"old": "see [redacted 1]\nold", "new": "see [redacted 1]\nnew"}]}),
            ]
        )
        desk.wire.reply("Done.")
        await talk.session.prompt("change it")
        over, new, old, into, fine, manual = texts(talk)[2:]
        assert "what was redacted counts as not read" in over
        assert "stands for a secret that you cannot see" in new and not (desk.project / "new.txt").exists()
        assert "The old text holds [redacted 1]" in old and "a part of the line is enough" in old
        assert "it would take the secret's place" in into or "take the secret's place" in into
        assert "Edited" in fine and "Edited" in manual
    assert (desk.project / "conf.ini").read_text() == f"[x]\nkey = {KEY}\nold = 2\n"
    assert (desk.project / "m.md").read_text() == "see [redacted 1]\nnew\n"
    assert KEY.encode() not in on_disk(desk), "the diff of the edit shows the line with the key"


async def test_R50_the_users_own_commands_and_files(desk: Desk) -> None:
    async with desk.open() as talk:
        await talk.session.run_shell(f"cat keys.txt; : {THIRD}")
        await talk.session.run_shell("cat keys.txt", in_window=False)
        desk.wire.reply("Thanks.")
        await talk.session.prompt(await talk.session.prepare("see @keys.txt", ["keys.txt"]))
        assert "Attached: keys.txt (2 lines); 2 secrets redacted" in talk.notices
        finished = talk.of(ToolFinished)
        assert [event.redacted for event in finished] == [3, 2] and finished[1].text == "a [redacted 2]\nb [redacted 3]"
    (shell,) = [user for user in desk.payloads(User) if isinstance(user.blocks[0], ShellBlock)]
    assert len(shell.redacted) == 3
    sent = desk.wire.requests[-1].body + on_disk(desk)
    assert not any(secret.encode() in sent for secret in (KEY, OTHER, THIRD))


async def test_R50_what_was_typed_goes_as_it_stands_and_is_warned_about_once(desk: Desk) -> None:
    async with desk.open() as talk:
        for _ in range(2):
            desk.wire.reply("Noted.")
            await talk.session.prompt(f"my key is {KEY}")
        warnings = [event for event in talk.of(Notice) if event.level == "warning"]
        assert len(warnings) == 1 and "GitHub token (ghp_…)" in warnings[0].text and KEY not in warnings[0].text
    assert desk.wire.requests[-1].body.count(KEY.encode()) == 2


async def test_T101_a_job_and_its_file(desk: Desk) -> None:
    async with desk.open() as talk:
        command = f"cat keys.txt; printf '{THIRD[:9]}'; until [ -e go ]; do sleep 0.01; done; echo '{THIRD[9:]}'; exec sleep 60"
        desk.wire.reply(tools=[("bash", {"command": command, "background": True})])
        desk.wire.reply("It runs.")
        await talk.session.prompt("begin")
        first = texts(talk)[-1]
        (view,) = talk.session.jobs()
        file = Path(view.path)
        assert "a [redacted 1]\nb [redacted 2]" in first and THIRD[:9] not in first
        assert file.parent == desk.home / "cache" / "spills" / talk.session.id and file.stat().st_mode & 0o777 == 0o600
        (desk.project / "go").touch()
        assert await comes_true(lambda: "[redacted 3]" in file.read_text())
        desk.wire.reply(tools=[("bash_output", {"id": 1}), ("read", {"path": str(file)})])
        desk.wire.reply("Seen.")
        await talk.session.prompt("look")
        looked, read = texts(talk)[-2:]
        assert looked.startswith("[redacted 3]\n") and "[redacted 3]" in read
        assert talk.of(ToolFinished)[-1].redacted == 3
        (view,) = talk.session.jobs()
        assert "[redacted 3]" in view.recent and THIRD[9:20] not in view.recent
    assert file.read_text() == "a [redacted 1]\nb [redacted 2]\n[redacted 3]\n"
    assert not any(secret.encode() in on_disk(desk) for secret in (KEY, OTHER))


async def test_T101_a_long_output_is_cleaned_beside_the_event_loop(desk: Desk) -> None:
    lines = 40_000
    async with desk.open() as talk:
        desk.wire.reply(
            tools=[("bash", {"command": f"seq 1 {lines}; cat keys.txt; seq 1 {lines}; cat keys.txt; seq 1 {lines}"})]
        )
        desk.wire.reply("Long.")
        longest, before = 0.0, asyncio.get_running_loop().time()
        turn = asyncio.ensure_future(talk.session.prompt("go"))
        while not turn.done():
            await asyncio.sleep(0.001)
            now = asyncio.get_running_loop().time()
            longest, before = max(longest, now - before), now
        await turn
        assert longest < 2.0
        (result,) = [entry for entry in desk.entries() if isinstance(entry.payload, Result)]
        spill = desk.home / "cache" / "spills" / talk.session.id / f"entry-{result.key}.txt"
        kept = spill.read_text()
    assert kept.count("[redacted 1]") == 2 and kept.count("\n") == 3 * lines + 4 and kept.endswith(f"\n{lines}\n")
    database = sqlite3.connect(next(desk.folder.glob("*.db")))
    blobs = b"".join(bytes(data) for (data,) in database.execute("SELECT data FROM blob"))
    database.close()
    assert KEY.encode() not in blobs and b"[redacted 2]" in blobs


async def test_R47_a_key_of_claw_itself_and_one_in_auth_json_are_known(desk: Desk) -> None:
    folder = desk.home / "data"
    folder.mkdir(mode=0o700)
    os.close(os.open(folder / "auth.json", os.O_CREAT, 0o600))
    (folder / "auth.json").write_text('{"other": {"key": "opaque.value.77"}}')
    async with desk.open() as talk:
        own = desk.env["ANTHROPIC_API_KEY"]
        desk.wire.reply(
            tools=[
                (
                    "bash",
                    {
                        "command": f"echo {own[:8]}''{own[8:]}; cat {folder}/auth.json; echo {own[:6]}''{own[6:]} | base64"
                    },
                )
            ]
        )
        desk.wire.reply("Seen.")
        await talk.session.prompt("print it")
        (shown,) = texts(talk)
        assert own not in shown and "opaque.value.77" not in shown and shown.startswith("[redacted 1]\n")


async def test_R50_what_is_pinned_and_what_a_compaction_attaches_again_is_clean(desk: Desk) -> None:
    async with desk.open() as talk:
        desk.wire.reply(tools=[("read", {"path": "conf.ini"}), ("bash", {"command": "cat v.txt"})])
        desk.wire.reply("Seen.")
        await talk.session.prompt("read it")
        for number in range(5):
            desk.wire.reply("answer " * 300)
            await talk.session.prompt(f"question {number} " + "words " * 200)
        (desk.project / "conf.ini").write_text(f"[x]\nkey = {KEY}\nold = 1\nnew = {THIRD}\n")
        edit = talk.session.editor.plan_pin_file(desk.project / "keys.txt")
        assert isinstance(edit, Edit)
        talk.session.editor.apply(edit)
        desk.wire.reply(SUMMARY)
        assert (await talk.session.compact()).key is not None
        desk.wire.reply("Going on.")
        await talk.session.prompt("go on")
        path = talk.path
    last = desk.wire.requests[-1].body.decode()
    attached = next(text for text in desk.wire.texts(desk.bodies()[-1]) if 'kind="file"' in text)
    assert "key = [redacted 1]" in attached and "new = [redacted 4]" in attached and "b [redacted 3]" in last
    assert not any(secret in last or secret.encode() in on_disk(desk) for secret in (KEY, OTHER, THIRD))
    async with desk.open(path) as talk:
        desk.wire.reply(tools=[("bash", {"command": "cat g.txt"})])
        (desk.project / "g.txt").write_text(KEYS["Groq"])
        desk.wire.reply("Seen.")
        await talk.session.prompt("another")
        assert texts(talk)[0].startswith("[redacted 5]")


async def test_T101_what_an_interrupted_command_had_said_and_errors_are_clean_too(desk: Desk) -> None:
    async with desk.open() as talk:
        desk.wire.reply(
            tools=[
                ("read", {"path": "none/../keys.txt/x"}),
                ("bash", {"command": "cat keys.txt t.txt; echo; exec sleep 60"}),
            ]
        )
        turn = asyncio.ensure_future(talk.session.prompt("go"))
        await talk.seen(ToolProgress, lambda event: "b [redacted" in event.text)
        talk.session.interrupt()
        await turn
        shown = texts(talk)[-1]
        assert shown.startswith("a [redacted 1]\nb [redacted 2]\n") and "Interrupted by the user" in shown
        assert talk.of(ToolFinished)[-1].redacted >= 2
    assert not any(secret.encode() in on_disk(desk) for secret in (KEY, OTHER, THIRD))
