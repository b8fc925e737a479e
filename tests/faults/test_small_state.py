"""Small files that several claws change at once, under any umask, with any rights, and with a clock that jumps."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from agent.config.paths import Paths
from agent.config.private_file import locked, replace_private
from agent.model_listing import read_listing, save_listing
from agent.permissions.grants import Grants, read_state
from agent.store import sessions
from agent.store.index import SessionIndex
from agent.transcript import Transcript
from providers.base import ListedModel
from providers.types import ProviderConfig
from tests.fakes.claw_process import run
from tests.fakes.store_writer import entry
from tests.faults.g03_small_state import measure
from tests.faults.test_kill import desk_in
from tui.composing.drafts import Drafts
from tui.composing.history import MAX_FILE_BYTES, PromptHistory

PROJECT = Path("/somewhere/project")


def test_T95_eight_processes_lose_nothing_and_break_nothing() -> None:
    reading = measure(0.006)
    assert reading.holds, reading.reached


def ignore(text: str) -> None:
    raise AssertionError(text)


def paths_of(folder: str | Path) -> Paths:
    return Paths.from_env({"CLAW_HOME": f"{folder}/home"})


def write_everything(paths: Paths) -> None:
    """Each kind of file that claw keeps, through what writes it."""
    Grants(paths.state_file).add(PROJECT, "read")
    PromptHistory(paths.history_file).save("typed")
    Drafts(paths.state / "drafts", PROJECT).save("a draft", 1)
    save_listing(paths.models, ProviderConfig("openai", "responses"), [ListedModel("m")])
    store = sessions.new_session(paths.sessions, PROJECT, ignore)
    store.append([entry(1)])
    store.close()
    SessionIndex(paths.sessions, paths.index_file).complete()


def loose(root: Path) -> list[str]:
    """Files and folders that somebody else may use."""
    return [f"{path} {stat.S_IMODE(path.stat().st_mode):o}" for path in root.rglob("*") if path.stat().st_mode & 0o077]


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o777])
def test_T98_files_are_their_owners_alone_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    paths = paths_of(tmp_path)
    before = os.umask(umask)
    try:
        write_everything(paths)
        write_everything(paths)
    finally:
        os.umask(before)
    assert len(list((tmp_path / "home").rglob("*"))) > 12 and not loose(tmp_path / "home")
    found = [path for path in (tmp_path / "home").rglob("*") if path.is_dir()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in found} == {0o700}
    assert all(path.stat().st_mode & 0o600 == 0o600 for path in (tmp_path / "home").rglob("*") if path.is_file())


def test_T98_what_others_may_read_is_taken_from_them_when_it_is_used(tmp_path: Path) -> None:
    paths = paths_of(tmp_path)
    script = "import sys; from tests.faults import test_small_state as t; t.write_everything(t.paths_of(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True, cwd=Path(__file__).parents[2])
    held = Drafts(paths.state / "drafts", PROJECT)
    (session,) = paths.sessions.glob("*.db")
    for path in (tmp_path / "home").rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    store, _ = sessions.open_session(session, ignore)
    assert read_state(paths.state_file)["grants"] and PromptHistory(paths.history_file).read() == ["typed"]
    assert held.adopt() == "a draft"
    held.save("another", 1)
    store.append([entry(2)])
    store.close()
    Grants(paths.state_file).add(PROJECT, "edit")
    PromptHistory(paths.history_file).save("more")
    SessionIndex(paths.sessions, paths.index_file).complete()
    save_listing(paths.models, ProviderConfig("openai", "responses"), [ListedModel("m")])
    left = [line for line in loose(tmp_path / "home") if not line.endswith(" 755")]
    assert not left
    assert not {"sessions", "drafts", "models", "state", "data"} & {
        Path(line[:-4]).name for line in loose(tmp_path / "home")
    }


@pytest.mark.slow
async def test_T98_a_whole_run_leaves_nothing_for_others(tmp_path: Path) -> None:
    with desk_in(tmp_path) as desk:
        desk.wire.reply("I look.", tools=[("bash", {"command": "seq 200000"})])
        desk.wire.reply("Done.")
        done = await run(desk, "-p", "go", "-m", desk.model, "--mode", "auto", umask=0)
        assert done.code == 0, done.err
        made = [path for path in desk.home.rglob("*") if path != desk.home / "config" / "config.toml"]
        assert any("spills" in str(path) for path in made) and any(path.suffix == ".db" for path in made)
        assert [line for line in loose(desk.home) if "/config" not in line] == []


def test_what_a_killed_writer_left_goes_with_the_next_and_nothing_else_does(tmp_path: Path) -> None:
    file = tmp_path / "state.toml"
    left, others = (
        tmp_path / ".state.toml.abcd_123",
        [tmp_path / ".state.toml.mine", tmp_path / ".state.tomlx.abcd1234"],
    )
    for path in (left, *others):
        path.touch()
    with locked(file):
        replace_private(file, b"x")
    assert not left.exists() and all(path.exists() for path in others) and file.read_bytes() == b"x"


def test_T95_the_prompt_history_is_cut_whole(tmp_path: Path) -> None:
    history = PromptHistory(tmp_path / "history")
    for number in range(140):
        history.save(f"{number} " + "x" * 19_000)
    assert (tmp_path / "history").stat().st_size <= MAX_FILE_BYTES
    texts = PromptHistory(tmp_path / "history").read()
    assert texts[-1].startswith("139 ") and [int(t.split()[0]) for t in texts] == list(range(140 - len(texts), 140))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["history", "history.lock"]


JUMPING = """
import itertools, random, time
_real, _step = time.time, itertools.count()
_jumps = [0, 86_400, -86_400, 31_536_000, -7, 3_600, -31_536_000]
time.time = lambda: _real() + _jumps[next(_step) % len(_jumps)]
time.time_ns = lambda: int(time.time() * 1e9)
"""


@pytest.mark.slow
async def test_T90_a_clock_that_jumps_all_the_time_disturbs_nothing(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(JUMPING)
    with desk_in(tmp_path / "desk") as desk:
        desk.wire.overloaded()
        desk.wire.reply("I look.", tools=[("bash", {"command": "echo hi"}), ("glob", {"pattern": "*"})])
        desk.wire.reply("Done.")
        desk.wire.reply("Again.")
        env = {"PYTHONPATH": str(tmp_path)}
        argv = ("-m", desk.model, "--mode", "auto", "--output-format", "json")
        done = await run(desk, "-p", "go", *argv, env=env)
        assert done.code == 0 and done.json["result"] == "Done.", done.err
        assert 0 <= done.json["duration_ms"] < 40_000
        again = await run(desk, "-p", "go on", "-c", *argv, env=env)
        assert again.code == 0 and again.json["result"] == "Again.", again.err
        entries = desk.entries()
        assert [e.key for e in entries] == list(range(1, len(entries) + 1))
        times = [e.time_ms for e in entries]
        assert times != sorted(times), "the clock did jump"
        assert [e.key for e in Transcript(entries).branch] == [e.key for e in entries]
        assert "duration_ms" not in json.dumps(done.json["usage"])
        assert not any('"duration_ms":-' in repr(e) or "duration_ms=-" in repr(e) for e in entries)


def test_T90_ids_made_in_the_same_second_are_different_and_a_name_that_is_taken_is_not_given(tmp_path: Path) -> None:
    ids = {sessions.new_id(1_000_000_000.0) for _ in range(5_000)}
    assert len(ids) == 5_000 and len({id_[:15] for id_ in ids}) == 1
    assert len({sessions.new_session(tmp_path, PROJECT, ignore).meta.id for _ in range(50)}) == 50


def test_a_listing_of_the_future_counts_for_nothing(tmp_path: Path) -> None:
    config = ProviderConfig("openai", "responses")
    save_listing(tmp_path, config, [ListedModel("m")])
    assert [m.id for m in read_listing(tmp_path, config)] == ["m"]
    (file,) = tmp_path.glob("*.json")
    content = json.loads(file.read_bytes())
    file.write_text(json.dumps({**content, "time_s": content["time_s"] + 86_400}))
    assert read_listing(tmp_path, config) == ()
