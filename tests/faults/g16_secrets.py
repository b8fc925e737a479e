"""Keys of every format through whole runs of the program, then a search for them in everything that claw leaves or sends.

A place is a project whose files, commands, jobs and hooks say a key of each format, whole, cut in two and in floods, with a
home and a server of its own. Searched are: what went to the model, all files of claw's four folders, the log at its most
talkative, crash reports, what the terminal or the pipes got, and what children saw on their command line and in their
environment. Both halves of a key count as the key.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.agent.processes.marks import children_of
from tests.fakes.claw_process import environment
from tests.fakes.model_server import ModelServer
from tests.fakes.secret_keys import made_keys, made_pem
from tests.fakes.session_kit import Desk
from tests.fakes.wires import KEY, ResponsesSide
from tests.faults.gate import Gate, Reading
from tests.tui.program import Program

RUNS = 20
"""Of each kind, at the full share."""
LEAST_PART_CHARS = 10
FLOOD_LINES = 4_000
OWN = "opaque-9x7Qw2Er5Ty8Ui1Op4As"
"""A value without any form, which only its variable's name tells."""
_ENDED = "That was all."
_AT_ONCE = 3


class Found(NamedTuple):
    """What one run came to."""

    kinds: int
    searched: int
    """Files, requests and streams."""
    leaks: Sequence[str]
    """"KIND in PLACE"."""
    loose: Sequence[str]
    """Files and folders that others may open."""
    unseen: Sequence[str]
    """What should have happened and did not, so that nothing is proved."""


class Secrets:
    """A project full of keys, and where to look for them."""

    def __init__(self, folder: Path, server: ModelServer, seed: int) -> None:
        self.keys = made_keys(seed) | {"PEM": made_pem(seed), "PEM, RSA": made_pem(seed + 1, "RSA PRIVATE KEY", 24)}
        self.project = folder / "project"
        self.project.mkdir()
        self.desk = Desk(ResponsesSide(server), self.project, folder / "home")
        for path in (self.desk.home / "config", self.desk.home / "config" / "config.toml", self.project):
            path.chmod(0o755)  # what others may change is not believed
        self.desk.env |= {"MY_SERVICE_TOKEN": OWN, "CLAW_LOG": "debug"}
        self.watched: dict[str, bytes] = {}
        """What children had on the command line and in the environment, by name."""
        self._fill()

    def _fill(self) -> None:
        lines = [f"the key of {name} is {key}." for name, key in self.keys.items() if "\n" not in key]
        text = "\n".join((*lines, f"and {OWN} too", KEY)) + "\n"
        pem, rsa = self.keys["PEM"], self.keys["PEM, RSA"]
        self._write("keys.txt", text)
        self._write(".env", "".join(f"K{n}={key}\n" for n, key in enumerate(self.keys.values()) if "\n" not in key))
        self._write("id_rsa", pem + "\n")
        self._write("conf.ini", f"a = 1\nkey = {self.keys['GitHub']}\nold = yes\n")
        self._write(
            "big.txt", "".join(f"line {n} of many words that say nothing\n" for n in range(FLOOD_LINES)) + rsa + "\n"
        )
        self._write("halves.py", _HALVES)
        cell = {"cell_type": "code", "source": ["x"], "metadata": {}, "execution_count": 1, "outputs": [
            {"output_type": "stream", "name": "stdout", "text": lines}]}  # fmt: skip
        self._write("a.ipynb", json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))

    def _write(self, name: str, text: str) -> None:
        (self.project / name).write_text(text)

    def script(self) -> None:
        """What the model asks for in a turn."""
        wire = self.desk.wire
        wire.reply(
            tools=[
                _bash("cat keys.txt id_rsa; cat keys.txt >&2; exit 3"),
                _bash("python3 halves.py"),
                ("read", {"path": "keys.txt"}),
                ("read", {"path": ".env"}),
                ("read", {"path": "a.ipynb"}),
                ("grep", {"pattern": "key of|^K[0-9]+=", "output": "content", "path": "."}),
            ]
        )
        wire.reply(
            tools=[
                _bash("cat big.txt keys.txt big.txt keys.txt big.txt"),
                _bash("cat keys.txt id_rsa; sleep 0.1; cat keys.txt; exec sleep 60", background=True),
                _bash("env; env > env.txt; tr '\\0' '\\n' < /proc/$PPID/environ > parent.txt"),
                ("edit", {"path": "conf.ini", "edits": [{"old": "old = yes", "new": "old = no"}]}),
                ("write", {"path": "made.txt", "content": "x [redacted 1]\n"}),
                ("bash_output", {"id": 1}),
            ]
        )
        wire.reply(_ENDED)

    # ------------------------------------------------------------------ looking

    @contextmanager
    def watching(self, pid: int) -> Iterator[None]:
        """Note what the descendants of a process are given, as long as the block runs."""
        over = threading.Event()

        def watch() -> None:
            while not over.wait(0.02):
                self._note(pid)

        thread = threading.Thread(target=watch, name="watching")
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _note(self, pid: int) -> None:
        waiting = [(child, pid) for child in children_of(pid)]
        while waiting:
            child, parent = waiting.pop()
            before, environ, after = (_read(child, name) for name in ("cmdline", "environ", "cmdline"))
            if not before or before != after or before == _read(pid, "cmdline"):
                continue  # it is about to become another program, and still has what claw itself has
            if _read(child, "stat").rpartition(b")")[2].split()[1:2] != [str(parent).encode()]:
                continue  # it has ended, and its number is another process's
            waiting += [(each, child) for each in children_of(child)]
            self.watched[f"command line of {child}"] = before
            self.watched[f"environment of {child}"] = environ

    def search(self, streams: dict[str, bytes], unseen: Iterable[str] = ()) -> Found:
        """Look for every key in the streams, in what was sent, in what children saw and in claw's files."""
        home = self.desk.home
        files = [path for name in ("data", "state", "cache") for path in sorted((home / name).rglob("*"))]
        places = dict(streams) | self.watched
        places |= {str(path.relative_to(home)): path.read_bytes() for path in files if path.is_file()}
        places |= {f"request {n}": request.body for n, request in enumerate(self.desk.wire.requests)}
        for name in ("env.txt", "parent.txt"):
            if (path := self.project / name).exists():
                places[name] = path.read_bytes()
        parts = {name: _parts(key) for name, key in {**self.keys, "own": OWN, "claw's key": KEY}.items()}
        leaks = [
            f"{name} in {place}"
            for place, data in places.items()
            for name, each in parts.items()
            if any(part in data for part in each)
        ]
        missing = list(unseen)
        if not (self.project / "env.txt").exists():
            missing.append("no command ran")
        elif not self.watched:
            missing.append("no child was seen")
        if "[redacted 1]" in (self.project / "made.txt").read_text() if (self.project / "made.txt").exists() else False:
            leaks.append("a marker in made.txt")
        if (self.project / "conf.ini").exists() and "old = no" not in (self.project / "conf.ini").read_text():
            missing.append("nothing was edited")
        return Found(len(self.keys), len(places), leaks, _loose(files), missing)


def _bash(command: str, *, background: bool = False) -> tuple[str, dict[str, object]]:
    return "bash", {"command": command, **({"background": True} if background else {})}


_HALVES = """
import sys, time
for line in open("keys.txt"):
    middle = len(line) // 2 + 4
    for part in (line[:middle], line[middle:]):
        sys.stdout.write(part)
        sys.stdout.flush()
        time.sleep(0.004)
"""


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def _parts(key: str) -> list[bytes]:
    """Both halves of a key, or each line of one with several; what all keys of a kind begin with is no part."""
    if "\n" in key:
        return [line.encode() for line in key.split("\n")[1:-1]]
    middle = len(key) // 2
    return [part.encode() for part in (key, key[:middle], key[middle:]) if len(part) >= LEAST_PART_CHARS]


def _loose(files: Sequence[Path]) -> list[str]:
    """A socket or a file that went meanwhile does not count."""
    found = []
    for path in files:
        try:
            mode = path.lstat().st_mode
        except OSError:
            continue
        if mode & 0o077:
            found.append(f"{path} {mode & 0o777:o}")
    return found


# --------------------------------------------------------------------------- the runs


def print_run(secrets: Secrets) -> Found:
    """`claw -p` with every event on standard output; then its session as a document."""
    secrets.script()
    env = environment(secrets.desk)
    argv = [sys.executable, "-m", "claw"]
    asked = [
        "-p",
        "look at @.env and @keys.txt",
        "--mode",
        "auto",
        "--allowed-tools",
        "read(.env)",
        "-m",
        secrets.desk.model,
    ]
    process = subprocess.Popen(
        [*argv, *asked, "--output-format", "stream-json"], cwd=secrets.project, env=env, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    with secrets.watching(process.pid):
        out, err = process.communicate(timeout=120)
    unseen = [] if _ENDED.encode() in out else [f"the run did not end as it should: {err[-300:]!r}"]
    events = [json.loads(line) for line in out.splitlines()]
    finished = [event for event in events if event["type"] == "tool_finished"]
    unseen += [
        f"{e['tool']} tells of no secret" for e in finished if e["tool"] in ("read", "grep") and not e["redacted"]
    ]
    return secrets.search({"standard output": out, "standard error": err}, unseen)


def screen_run(secrets: Secrets) -> Found:
    """The screen, with a command of the user's own, every card unfolded, the list of jobs and a reading of what was said."""
    secrets.script()
    screens: list[str] = []
    arguments = ("--mode", "auto", "--allowed-tools", "read(.env)", "-m", secrets.desk.model)
    # Its environment and its command line are searched, which a fork would have from another.
    with Program(secrets.desk, *arguments, columns=160, rows=48, cold=True).ready() as program:
        with secrets.watching(program.pid):
            program.say("look at @.env and go on")
            screens.append(program.wait_for(_ENDED, 60))
            program.idle()
            program.say("!cat keys.txt id_rsa")
            screens.append(program.wait_for("cat keys.txt id_rsa"))
            program.idle()
            program.type("\x0f")
            screens.append(program.wait_for("[redacted "))
            program.say("/jobs")
            screens.append(program.wait_for("sleep"))
            program.type("\x1b")
            program.read_for(0.6)
            program.say("/quit")
            program.wait_end(20)
        screens.append(program.text())
        raw = bytes(program.raw)
    unseen = [] if any("secrets redacted" in screen for screen in screens) else ["no card tells of redacted secrets"]
    return secrets.search({"terminal": raw, "screens": "\n".join(screens).encode()}, unseen)


def refused_run(secrets: Secrets) -> Found:
    """A wrong key, which the server repeats in its refusal; and a crash whose error has keys in its text."""
    wrong = "wr0ng-" + secrets.keys["Groq"][4:40]
    secrets.keys = {"the wrong key": wrong, **secrets.keys}
    secrets.desk.env["OPENAI_API_KEY"] = wrong
    done = subprocess.run(
        [sys.executable, "-m", "claw", "-p", "hello", "-m", secrets.desk.model], cwd=secrets.project,
        env=environment(secrets.desk), stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    said = "; ".join(key.replace("\n", "\\n") for key in secrets.keys.values())
    (secrets.project / "boom.txt").write_text(said)
    crashed = subprocess.run(
        [sys.executable, "-c", _CRASH], cwd=Path(__file__).parents[2], stdin=subprocess.DEVNULL, capture_output=True,
        env={**environment(secrets.desk), "BOOM": str(secrets.project / "boom.txt")}, timeout=60, check=False,
    )  # fmt: skip
    reports = list((secrets.desk.home / "state" / "logs").glob("crash-*.txt"))
    unseen = [] if (done.returncode == 1 and b"401" in done.stderr + done.stdout) or b"key" in done.stderr else [
        f"no refusal: {done.stderr!r}"]  # fmt: skip
    unseen += [] if len(reports) == 1 and b"crash-" in crashed.stdout else [f"no report: {crashed.stderr!r}"]
    (secrets.project / "env.txt").write_text("")  # no command is to run here
    secrets.watched["none"] = b""
    (secrets.project / "conf.ini").unlink()
    streams = {"out": done.stdout, "err": done.stderr, "crash": crashed.stdout, "crash err": crashed.stderr}
    return secrets.search(streams, unseen)


_CRASH = """
import os
from pathlib import Path
from tui.crash import crash_text
try:
    try:
        raise ValueError({"headers": {"x-key": os.environ["OPENAI_API_KEY"], "note": os.environ["MY_SERVICE_TOKEN"]}})
    except ValueError as error:
        raise RuntimeError(Path(os.environ["BOOM"]).read_text()) from error
except RuntimeError as error:
    print(crash_text(error))
"""


def one(kind: str, seed: int) -> Found:
    """One run; claw and all it starts have the umask that this process has."""
    with tempfile.TemporaryDirectory(prefix="g16-") as folder, ModelServer() as server:
        return _KINDS[kind](Secrets(Path(folder), server, seed))


_KINDS: dict[str, Callable[[Secrets], Found]] = {"print": print_run, "screen": screen_run, "refused": refused_run}


def measure(share: float) -> Reading:
    began = time.monotonic()
    seed = int(began * 1000) % 1_000_000
    runs = [(kind, seed + n) for n in range(max(1, round(RUNS * share))) for kind in _KINDS]
    umask = os.umask(0)  # nothing may rest on a strict one
    try:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            found = list(pool.map(lambda run: one(*run), runs))
    finally:
        os.umask(umask)
    leaks = [leak for each in found for leak in each.leaks]
    loose = [path for each in found for path in each.loose]
    unseen = [fault for each in found for fault in each.unseen]
    searched = sum(each.searched for each in found)
    reached = (
        f"{len(runs)} runs, {found[0].kinds} formats, {searched:,} places: {len(leaks)} found, {len(loose)} files loose"
    )
    for fault in (*leaks, *loose, *unseen):
        reached += f"; {fault}"
    return Reading(reached[:1_000], not leaks and not loose and not unseen)


GATE = Gate(
    "G16",
    "Secrets: 25 formats, a full run, all files, command lines, environments, logs",
    "0 occurrences; 0 files looser than 0600",
    "CVE-2026-46406: keys in debug logs",
    measure,
)
