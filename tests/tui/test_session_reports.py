"""`claw sessions …` over sessions that are really on disk: what it says, what it writes, what it deletes and what it refuses."""

import asyncio
import contextlib
import json
import os
import sqlite3
import stat
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from agent.config.layers import load_config
from agent.config.paths import Paths
from agent.config.providers import provider_configs
from agent.store import sessions
from agent.store.base import SessionMeta
from agent.store.session_file import SessionFile
from agent.transcript import Assistant, Entry, Payload, Result, Setting, User
from providers.types import TextBlock, Usage
from tests.fakes.terminal import Terminal
from tests.tui.test_app_literal import is_clean
from tui.launch.arguments import UsageError, parse
from tui.launch.startup import SetupError, Startup
from tui.subcommands.session_reports import report_sessions

ROOT = Path(__file__).parents[2]
KEY = "sk-ant-api03-" + "Ab1" * 20
HOSTILE = "\x1b]0;x\x07\x9b2J\u202e[red]x[/red]"


class Home:
    """A home with sessions, and claw's subcommand run in it."""

    def __init__(self, root: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.project = root / "project"
        self.project.mkdir()
        self.env = {"CLAW_HOME": str(root / "home"), "HOME": str(root), "MY_TOKEN": "t0ps3cret-value"}
        self.paths = Paths.from_env(self.env)
        self.output = root / "out.md"
        self._capture = capture
        self._number = 0

    def add(self, *payloads: Payload, project: Path | None = None) -> str:
        self._number += 1
        id_ = f"20260101-{self._number:06}-ab{self._number:02}"
        meta = SessionMeta(id_, str(project or self.project), 1_000 * self._number)
        store = SessionFile(self.file(id_), meta)
        store.append([Entry(k, k - 1 or None, 1_700_000_000_000 + k, p) for k, p in enumerate(payloads, 1)])
        store.close()
        os.utime(store.path, (self._number, self._number))
        return id_

    def file(self, id_: str) -> Path:
        return self.paths.sessions / f"{id_}.db"

    def startup(self, *argv: str) -> Startup:
        arguments = parse(["sessions", *argv])
        loaded = load_config(self.paths, self.project, self.env, ())
        providers = provider_configs(loaded, self.env, self.paths)
        return Startup(arguments, self.env, self.paths, self.project, self.project, loaded, providers, "test")

    def run(self, *argv: str) -> "Printed":
        self._capture.readouterr()
        assert report_sessions(self.startup(*argv)) == 0
        return Printed(*self._capture.readouterr())

    def refused(self, *argv: str) -> str:
        with pytest.raises(SetupError) as caught:
            report_sessions(self.startup(*argv))
        what, _, remedy = str(caught.value).partition("\n")
        assert what and remedy, "what is wrong, and what to do"
        return str(caught.value)


class Printed(NamedTuple):
    out: str
    err: str


@pytest.fixture
def home(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Home:
    return Home(tmp_path, capsys)


def user(text: str) -> User:
    return User((TextBlock(text),))


def reply(text: str) -> Assistant:
    return Assistant((TextBlock(text),), "p", "m", "anthropic", "f", None, Usage(10), "end_turn", cost_usd=0.25)


# --------------------------------------------------------------------------- list, search, du


def test_list_shows_this_project_and_all_with_a_word(home: Home) -> None:
    assert home.run("list").out == "There are no sessions yet.\n" and not home.paths.data.exists()
    other = home.add(user("elsewhere"), project=Path("/other"))
    assert "no session of" in home.run("list").out and "--all` shows 1" in home.run("list").out
    mine = home.add(user("mine"), reply("x"), Setting(title=f"Named {HOSTILE}"))
    listed = home.run("list").out
    assert mine in listed and other not in listed and "3 entries" in listed and "$0.250" in listed and "Named" in listed
    assert is_clean(listed)
    everything = home.run("list", "--all").out
    assert mine in everything and other in everything and "/other" in everything
    (info,) = json.loads(home.run("list", "--json").out)
    assert (info["id"], info["entries"], info["cost_usd"], info["tokens"]) == (mine, 3, 0.25, 10)
    assert [info["id"] for info in json.loads(home.run("list", "--all", "--json").out)] == [mine, other]
    assert is_clean(home.run("list", "--json").out)


def test_a_session_from_last_week_is_found_by_a_word_in_it(home: Home) -> None:
    old = home.add(
        user("Repair it"), Result("c", "bash", (TextBlock(f"the Zucchini {HOSTILE} failed"),)), project=Path("/other")
    )
    home.add(user("something else"))
    found = home.run("search", "zucchini", "FAILED").out
    assert f"{old}  2023-11-14  /other  Repair it" in found and "[2] result: the Zucchini" in found and is_clean(found)
    (hit,) = json.loads(home.run("search", "zucchini", "--json").out)
    assert hit.keys() == {"session", "key", "kind", "time_ms", "excerpt", "title", "project"}
    assert (hit["session"], hit["key"], hit["kind"], hit["title"]) == (old, 2, "result", "Repair it")
    assert home.run("search", "rhinoceros").out == "No session holds rhinoceros.\n"
    assert json.loads(home.run("search", "--json", "--", "--no-such").out) == []


def test_du_counts_each_project_and_what_rm_would_free(home: Home) -> None:
    assert "0 sessions" in home.run("du").out
    small, big = home.add(user("small")), home.add(user("big " * 9_000), project=Path("/other"))
    spill = home.paths.spills / small / "entry-1.txt"
    spill.parent.mkdir(parents=True)
    spill.write_bytes(b"x" * 5_000_000)
    shown = home.run("du").out.splitlines()
    assert "5.0 MB" in shown[0] and str(home.project) in shown[0] and "/other" in shown[1] and "2 sessions" in shown[2]
    assert small in shown[-2] and big in shown[-1]
    data = json.loads(home.run("du", "--json").out)
    assert data["total_bytes"] == sum(p["bytes"] for p in data["projects"]) == sum(s["bytes"] for s in data["sessions"])
    assert data["index_bytes"] > 0 and data["sessions"][0]["id"] == small and data["sessions"][0]["bytes"] > 5_000_000
    freed = home.run("rm", small, "--yes").out
    assert "Deleted 1 session; 5.0 MB are free." in freed and not spill.exists()


# --------------------------------------------------------------------------- export


def test_T101_export_takes_keys_and_known_values_out(home: Home) -> None:
    id_ = home.add(user(f"{KEY} and t0ps3cret-value {HOSTILE}"), reply("ok"))
    printed = home.run("export", id_).out
    assert printed.startswith("# ") and "## User" in printed and "[redacted 1] and [redacted 2]" in printed
    assert is_clean(printed) and "## Assistant\n\nok" in printed
    document = json.loads(home.run("export", id_, "--format", "json").out)
    assert document["redacted"] == 2 and len(document["entries"]) == 2
    for text in (printed, json.dumps(document)):
        assert KEY not in text and "t0ps3cret" not in text


def test_export_writes_a_private_file_and_overwrites_only_by_force(home: Home) -> None:
    id_ = home.add(user("hello"))
    told = home.run("export", id_[:17], "-o", str(home.output)).out
    assert str(home.output) in told and "0 secrets" in told
    first = home.output.read_text()
    assert "## User\n\nhello" in first and stat.S_IMODE(home.output.stat().st_mode) == 0o600
    home.output.write_text("mine")
    assert "--force" in home.refused("export", id_, "--output", str(home.output)) and home.output.read_text() == "mine"
    home.run("export", id_, "--output", str(home.output), "--force")
    assert home.output.read_text() == first and len(list(home.output.parent.glob("*out.md*"))) == 1
    assert home.run("export", id_, "-o", "-").out == first


@pytest.mark.parametrize("target", ["folder", "pipe", "no/such/folder.md", "dangling"])
@pytest.mark.parametrize("force", [(), ("--force",)])
def test_export_to_what_is_no_file_is_refused(home: Home, target: str, force: tuple[str, ...]) -> None:
    id_ = home.add(user("hello"))
    path = home.project / target
    if target == "folder":
        path.mkdir()
    elif target == "pipe":
        os.mkfifo(path)
    elif target == "dangling":
        path.symlink_to("/nowhere/at/all")
    home.refused("export", id_, "--output", str(path), *force)
    assert not path.is_file()


# --------------------------------------------------------------------------- rm


def test_rm_deletes_all_that_was_named_and_nothing_else(home: Home) -> None:
    ids = [home.add(user(f"question {n}")) for n in range(4)]
    home.run("list")
    printed = home.run("rm", ids[0], "--yes", ids[2], ids[0]).out
    assert "Deleted 2 sessions" in printed
    left = {file.name for file in home.paths.sessions.iterdir()}
    assert left == {f"{id_}{suffix}" for id_ in (ids[1], ids[3]) for suffix in (".db", ".lock")}
    assert [info["id"] for info in json.loads(home.run("list", "--json").out)] == [ids[3], ids[1]]
    assert home.run("search", "question", "0").out.startswith("No session")


def test_T94_rm_refuses_an_open_session_and_then_deletes_nothing(home: Home) -> None:
    free, busy = home.add(user("free")), home.add(user("busy"))
    store, _ = sessions.open_session(home.file(busy), lambda text: None)
    try:
        assert "open in another claw; nothing was deleted" in home.refused("rm", free, busy, "--yes")
        assert home.file(free).exists() and home.file(busy).exists()
    finally:
        store.close()


def test_rm_without_a_terminal_needs_the_word_for_it(home: Home) -> None:
    id_ = home.add(user("x"))
    assert "--yes" in home.refused("rm", id_) and home.file(id_).exists()


@pytest.mark.parametrize(
    ("answer", "deleted"), [("y\n", True), ("yes\n", True), ("\n", False), ("n\n", False), ("\x04", False)]
)
def test_rm_asks_on_a_terminal(home: Home, answer: str, deleted: bool) -> None:
    id_ = home.add(user("the question"))
    argv = [sys.executable, "-m", "claw", "sessions", "rm", id_[:15]]
    with Terminal(argv, cwd=ROOT, env={"PATH": os.environ["PATH"], **home.env}) as terminal:
        terminal.wait_for("Delete this session for good? [y/N]")
        assert "the question" in terminal.text() and id_ in terminal.text()
        terminal.type(answer)
        terminal.wait_for("Deleted 1 session" if deleted else "Nothing was deleted.")
    assert home.file(id_).exists() is not deleted


# --------------------------------------------------------------------------- bad input


@pytest.mark.parametrize("action", [("show",), ("export",), ("rm", "--yes")])
def test_T92_unknown_ambiguous_damaged_newer_and_odd_files_are_told_in_words(
    home: Home, action: tuple[str, ...]
) -> None:
    a, b = home.add(user("a")), home.add(user("b"))
    for wrong, told in {"nothing": "No session begins", "2026": "2 sessions begin", "../../etc": "No session"}.items():
        assert told in home.refused(*action, wrong)
    with contextlib.closing(sqlite3.connect(home.file(a))) as connection:
        connection.execute("PRAGMA user_version = 99")
    home.file(b).write_bytes(b"garbage" * 999)
    os.mkfifo(home.file("20260101-pipe"))
    assert "No session begins" in home.refused(*action, "20260101-pipe")
    if action[0] != "rm":
        assert home.run(*action, a).out  # what a newer claw wrote is read as far as it can be
        assert "cannot be read" in home.refused(*action, b)
        listed = home.run("list")
        assert a in listed.out and b not in listed.out and listed.err.count("claw: ") == 2
    else:
        assert "Deleted 2" in home.run("rm", a, b, "--yes").out, "what is damaged can still be deleted"


def test_a_folder_that_cannot_be_written_can_still_be_read(home: Home) -> None:
    id_ = home.add(user("a walrus"))
    home.paths.sessions.chmod(0o500)
    home.paths.data.chmod(0o500)
    try:
        assert id_ in home.run("list").out and "a walrus" in home.run("search", "walrus").out
        assert "a walrus" in home.run("show", id_).out
    finally:
        home.paths.data.chmod(0o700)
        home.paths.sessions.chmod(0o700)


@pytest.mark.parametrize(
    "argv",
    [
        [], ["burn"], ["show", ""], ["rm", "a", " "], ["show"], ["show", "a", "b"], ["export"], ["export", "a", "b"], ["rm"],
        ["search"], ["list", "x"], ["du", "x"],
        ["list", "--yes"], ["rm", "a", "--json"], ["search", "a", "--format", "json"], ["export", "a", "--format", "pdf"],
        ["export", "a", "--json"], ["du", "--all"], ["show", "a", "--force"], ["list", "--outp", "x"],
    ],
)  # fmt: skip
def test_wrong_usage_is_told(argv: list[str]) -> None:
    with pytest.raises(UsageError, match=r"\w"):
        parse(["sessions", *argv])


def test_ids_and_options_may_stand_in_any_order() -> None:
    for argv in (
        ["rm", "--yes", "a", "b"],
        ["rm", "a", "--yes", "b"],
        ["rm", "a", "b", "--yes"],
        ["--yes", "rm", "a", "b"],
    ):
        given = parse(["sessions", *argv])
        assert (given.action, given.words, given.yes) == ("rm", ("a", "b"), True)
    given = parse(["sessions", "export", "a", "--format", "json", "-o", "f", "--force"])
    assert (given.session, given.export_format, given.output, given.force, given.words) == ("a", "json", "f", True, ())


async def test_errors_end_with_2_and_a_remedy(home: Home) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "claw", "sessions", "rm", "nothing", "--yes", cwd=ROOT, stderr=asyncio.subprocess.PIPE,
        env={"PATH": os.environ["PATH"], "PYTHONWARNINGS": "error", **home.env},
    )  # fmt: skip
    _, err = await asyncio.wait_for(process.communicate(), 40)
    assert process.returncode == 2 and err.decode().count("\n") == 2 and "sessions list --all" in err.decode()
