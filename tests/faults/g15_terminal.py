"""The terminal is a boundary: sequences that others wrote, in everything that claw draws or prints, on a real pseudo-terminal.

An attack is one run of the program with a few sequences in every sink, each text behind a mark of its sink: what the model
says comes whole, or a character at a time. A sink whose mark never stood on the terminal was not attacked, and that is a
fault as well. A second run does the same with the commands that print.
"""

import base64
import json
import random
import re
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from agent.config.paths import Paths
from agent.store.base import SessionMeta
from agent.store.session_file import SessionFile
from agent.transcript import Assistant, Entry, User
from providers.types import TextBlock, Usage
from tests.fakes.claw_process import environment
from tests.fakes.hostile import MARKUP, OURS, SENDABLE, leaks
from tests.fakes.model_server import ModelServer
from tests.fakes.responses_wire import ResponseStream
from tests.fakes.session_kit import Desk
from tests.fakes.terminal import Terminal
from tests.fakes.wires import ResponsesSide
from tests.faults.gate import Gate, Reading
from tests.tui.program import Program

IN_A_TURN = {
    "Zre": "reasoning", "Zte": "model text", "Zco": "code block", "Zar": "card arguments", "Zfn": "file names", "Zgr": "grep",
    "Zou": "output, live and whole", "Zap": "permission prompt", "Zdi": "diff", "Zun": "unknown argument", "Zjo": "job",
    "Zqu": "composer and queue", "Zbr": "branch", "Zcw": "working directory", "Zcf": "configuration error",
    "Zin": "instruction files",
}  # fmt: skip
SINKS = IN_A_TURN | {
    "Zer": "provider error", "Zse": "session title", "Zpv": "session preview", "Zsi": "side question", "Zmo": "model list",
    "Zhi": "earlier messages", "Zfi": "filter field",
}  # fmt: skip
PRINTED = ("Zte", "Zse", "Zpv", "Zcf", "Zin", "Zer", "Zno")
"""Sinks of the commands that print; the last is what they are asked for and do not find."""
EARLIER = "20260101-000001-ab01"
"""A session that stands there already."""
GROUP = 2
"""Sequences of one attack: as many as are to be seen where a line is cut at 40 cells."""
AT_ONCE = 3
"""Attacks that run side by side: each one mostly waits for its screen."""
WHOLE_SHARE = 0.05
"""Below this share only the turn is run."""
_NO_LINE = str.maketrans("", "", "\r\n\0")
_NO_NAME = str.maketrans("/", "_", "\0")
_COPIED = re.compile(rb"\x1b\]52;c;([A-Za-z0-9+/=]*)\x07")


class Seen(NamedTuple):
    """What one run came to."""

    reached: frozenset[str]
    """Sinks whose mark stood on the terminal."""
    leaked: Sequence[str]
    markup: Sequence[str]
    """What happened that only markup could have caused: an error of its parser, an action, a link."""
    fetched: Sequence[str]
    """Requests for addresses that stood in foreign text alone."""
    wrong: Sequence[str] = ()
    """What did not come about that should have."""


class Hostile:
    """A project, a home and a server in which a few sequences stand everywhere."""

    def __init__(self, folder: Path, server: ModelServer, sequences: Sequence[str], *, split: bool) -> None:
        self.sequences = sequences
        self.split = split
        self.payload = " ".join(f"x{sequence}y" for sequence in sequences)
        self.line = self.payload.translate(_NO_LINE)
        name = self.line.replace("/", "_").encode()[:180].decode("utf-8", "ignore")
        project = folder / f"Zcw{name}"
        project.mkdir()
        self.server = server
        self.desk = Desk(ResponsesSide(server), project, folder / "home")
        server.responses.models({"id": f"Zmo{self.payload}"}, {"id": "gpt-test"})
        for number, sequence in enumerate(sequences):
            (project / f"Zfn{number}x{sequence.translate(_NO_NAME)}y.txt").write_text("x")
        (project / "bytes").write_bytes(
            f"Zou{self.text()} Zou".encode() + b"\n\x9b2J\x9d0;t\x9c\x90q\x9c\xff \x1b[31mred\x1b[0m\n"
        )
        (project / "evil.txt").write_text(f"Zgr{self.line}\nold\n")
        (project / ".claw" / "rules").mkdir(parents=True)
        (project / ".claw" / "rules" / f"Zin{name}.md").write_text(f"Rules.\n@Zin{self.line}.md\n")
        (project / ".git").mkdir()
        (project / ".git" / "HEAD").write_text(f"ref: refs/heads/Zbr{self.line}\n")
        self._fill_home()

    def text(self) -> str:
        """For sinks with room: markup, and addresses that nobody may ask for."""
        url = f"{self.server.url}/foreign"
        return f"{self.payload} {MARKUP} [t]({url}/link) ![i]({url}/image) <{url}/auto>"

    def _fill_home(self) -> None:
        home, paths = self.desk.home, Paths.from_env(self.desk.env)
        with (home / "config" / "config.toml").open("a") as config:
            key = "".join(c if c.isalnum() else f"\\U{ord(c):08x}" for c in self.payload)
            config.write(f'["Zcf{key}"]\na = 1\n')
        paths.history_file.parent.mkdir(parents=True, exist_ok=True)
        paths.history_file.write_text(json.dumps(f"Zhi{self.payload}") + "\n")
        store = SessionFile(
            self.desk.folder / "20260101-000001-ab01.db", SessionMeta("20260101-000001-ab01", str(self.desk.project), 1)
        )
        said = (TextBlock(f"Zpv{self.text()}"),)
        reply = Assistant(said, "openai", "gpt-test", "responses", "gpt", None, Usage(), "end_turn")
        store.append([
            Entry(1, None, 1_700_000_000_000, User((TextBlock(f"Zse{self.payload}"),))),
            Entry(2, 1, 1_700_000_000_001, reply),
        ])  # fmt: skip
        store.close()

    def say(self, *, text: str = "", thinking: str = "", tools: Sequence[tuple[str, object]] = ()) -> None:
        """Queue a reply, whole or a character at a time."""
        size = 1 if self.split else 1 << 20
        stream = ResponseStream("gpt-test", {"input_tokens": 900, "output_tokens": 40})
        if thinking:
            stream.reasoning(thinking, piece_chars=size)
        if text:
            stream.text(text, size)
        for name, arguments in tools:
            stream.tool(name, arguments, piece_chars=1 << 20)
        done = stream.complete()
        self.server.responses.script(done.reply() if self.split else done.reply_at_once())

    def seen(self, written: bytes, start: int = 0) -> Seen:
        shown = OURS.sub("", written.decode("utf-8", "backslashreplace"))
        markup = [word for word in ("MarkupError", "Traceback", "file:///x\x1b") if word in shown]
        asked = [request.path for request in self.server.requests if request.path.startswith("/foreign")]
        return Seen(
            frozenset(mark for mark in (*SINKS, "Zno") if mark in shown),
            leaks(written[start:], self.sequences),
            markup,
            asked,
        )


# --------------------------------------------------------------------------- the screen


def attack(hostile: Hostile, *, whole: bool = True) -> Seen:
    """One run of the screen. Without `whole` it ends with the first turn, which has the sinks `IN_A_TURN`."""
    desk = hostile.desk
    with Program(desk, "-m", desk.model, columns=150, rows=36) as claw:
        claw.ready()
        begun = len(claw.raw)
        try:
            claw.type("\x0c")
            claw.wait_for("Zcf")
            _turn(claw, hostile)
            if whole:
                _around(claw, hostile)
                _take_away(claw, hostile)
        except AssertionError as error:  # the screen is not what it should be
            return hostile.seen(bytes(claw.raw), begun)._replace(wrong=(str(error).partition("\n")[0],))
        seen = hostile.seen(bytes(claw.raw), begun)
        claw.quit()
        return seen


def _turn(claw: Program, hostile: Hostile) -> None:
    text, line, project = hostile.text(), hostile.line, hostile.desk.project
    quoted = line.replace("'", "")
    live = f"dd bs=1 if=bytes 2>/dev/null; until [ -e go ]; do sleep 0.02; done; : 'Zap{quoted}'"
    hostile.say(
        thinking=f"Zre{text}",
        text=f"Zte{text}\n\n```py\nZco{text}\n```\n",
        tools=[
            ("read", {"path": f"Zar{text}"}), ("glob", {"pattern": "Zfn*"}), ("grep", {"pattern": "Zgr"}),
            ("bash", {"command": live}), ("bash", {"command": f"cat bytes; : 'Zjo{quoted}'; sleep 600", "background": True}),
            ("edit", {"path": "evil.txt", "edits": [{"old": "old", "new": f"Zdi{line}"}]}), ("read", {f"Zun{line}": 1}),
        ],
    )  # fmt: skip
    hostile.say(text="THE END.")
    hostile.say(text="HEARD.")
    claw.say("begin")
    _allow(claw, "wants to run this command", "Zap")
    claw.wait_for("Zou")
    claw.type(f"\x1b[200~Zqu{line}\x1b[201~")
    claw.wait_for("Zqu")
    claw.type("\x1b\r")
    (project / "go").touch()
    _allow(claw, "wants to run this command", "Zjo")
    _allow(claw, "wants to change evil.txt", "Zdi")
    claw.wait_for("HEARD.")
    claw.idle()
    claw.type("\x0f")
    for _ in range(12):
        claw.type("\x1b[5~")
        claw.drain(0.03)
        for row, shown in enumerate(claw.display()):
            if (column := shown.find("@click")) >= 0:
                claw.type(f"\x1b[<0;{column + 2};{row + 1}M\x1b[<0;{column + 2};{row + 1}m")
                break
    claw.type("\x1b[1;5F")


def _allow(claw: Program, question: str, mark: str) -> None:
    claw.wait_for(_all(question, mark))
    claw.type("\x1b[F")  # what is asked has to be seen
    claw.answer("y", question)


def _around(claw: Program, hostile: Hostile) -> None:
    """The screens beside the conversation, one after the other."""
    responses = hostile.server.responses
    responses.error(400, "invalid_request", f"Zer{hostile.text()}")
    claw.say("fail")
    claw.wait_for("Zer")
    claw.idle()
    hostile.say(text=f"Zsi{hostile.text()}")
    for command, mark in (
        ("/btw what?", "Zsi"), ("/model", "Zmo"), ("/instructions", "Zin"), ("/jobs", "Zjo"), ("/history old", "History"),
        ("/context", "The gauge over"), ("/diff", "Zdi"), ("/config", "Configuration"),
    ):  # fmt: skip
        is_open = _all("The gauge over") if command == "/context" else _in_a_frame(mark)
        claw.say(command)
        claw.wait_for(is_open)
        if command == "/model":
            claw.type(f"\x1b[200~Zfi{hostile.line}\x1b[201~")
            claw.wait_for("Zfi")
            claw.type("\x1b")  # empties the field
            claw.wait_for(_none("Zfi"))
        if command == "/config":
            claw.type("\x1b[F")
            claw.wait_for(_in_a_frame("Zcf"))
        claw.type("\x1b")
        claw.wait_for(lambda text, is_open=is_open: not is_open(text))  # type: ignore[misc] # a default is not inferred
    claw.type("\x12")
    claw.wait_for("Zhi")
    claw.type("\x1b")
    claw.wait_for(_none("Zhi"))
    claw.type("@Zfn")
    claw.wait_for("▸ Zfn")
    claw.type("\x1b\x03")
    claw.idle()


def _take_away(claw: Program, hostile: Hostile) -> None:
    """What leaves the screen: the clipboard, documents, another session."""
    project = hostile.desk.project
    claw.say("/copy")
    claw.wait_for("on the clipboard")
    for file in ("out.md", "out.json"):
        claw.say(f"/export {file}")
        claw.wait_for(_in_words(f"{file} ("))
        assert leaks((project / file).read_bytes(), hostile.sequences) == []
    claw.say("/resume")
    claw.wait_for("╭─ Sessions")
    claw.type("\x1b[B")
    claw.wait_for("Zpv")
    claw.type("\r")
    claw.wait_for(lambda text: "╭─ Sessions" not in text and "Zse" in text)
    claw.say("/copy")
    claw.wait_for("on the clipboard")
    copied = [base64.b64decode(found) for found in _COPIED.findall(bytes(claw.raw))]
    assert any(b"Zpv" in text for text in copied)
    assert [leak for text in copied for leak in leaks(text, hostile.sequences)] == []


def _all(*wanted: str) -> Callable[[str], bool]:
    return lambda text: all(word in text for word in wanted)


def _in_words(wanted: str) -> Callable[[str], bool]:
    """Also where a line ends in it, as the folder's name may have it."""
    return lambda text: wanted in " ".join(text.replace("┃", " ").split())


def _none(word: str) -> Callable[[str], bool]:
    return lambda text: word not in text


def _in_a_frame(mark: str) -> Callable[[str], bool]:
    """Whether it stands in the frame with a title that was drawn last, beside and below which others may be seen."""

    def shown(text: str) -> bool:
        lines = text.split("\n")
        title = max((row for row, line in enumerate(lines) if "╭─ " in line), default=-1)
        if title < 0:
            return False
        # A wide character in front of the frame counts as one.
        left, right = max(0, lines[title].rfind("╭─ ") - 2), lines[title].rfind("╮") + 3
        for line in lines[title:]:
            if mark in line[left:right]:
                return True
            if "╰" in line[left : left + 5]:
                break
        return False

    return shown


# --------------------------------------------------------------------------- commands that print


def printed(hostile: Hostile) -> Seen:
    """One run of the commands, all on one terminal."""
    desk, text = hostile.desk, hostile.text()
    for _ in range(3):
        hostile.say(text=f"Zte{text}", thinking=text)
    hostile.server.responses.error(400, "invalid_request", f"Zer{text}")
    desk.wire.otherwise(lambda body: "Done.")
    asked = shlex.quote(f"Zno{hostile.line}")
    commands = [
        "sessions list", "sessions list --json", f"sessions show {EARLIER}", f"sessions show --json {EARLIER}",
        f"sessions search {asked}", "sessions search Zse", "sessions search --json Zpv", "sessions du --json",
        f"sessions show {asked}",
        f"sessions export {EARLIER}", f"sessions export --format json {EARLIER}", f"sessions rm {asked}",
        "config show", "config check", "config path", f"config set {asked} 1", "instructions", "instructions --json",
        f"context {EARLIER}", f"context --json {EARLIER}", "doctor", "doctor --json", f"login {asked}",
        "-p go", "-p go --output-format json", "-p go --output-format stream-json", "-p go",
        f"-p go -m {asked}/x", f"--mode {asked}", f"-p go --add-dir {asked}",
    ]  # fmt: skip
    # What is wrong with the configuration is told once and then mended: print mode would stop at it.
    config = desk.home / "config" / "config.toml"
    good = config.read_text().partition('["Zcf')[0]
    (desk.home / "good.toml").write_text(good)
    lines = [f"{shlex.quote(sys.executable)} -m claw {command} </dev/null" for command in commands]
    lines.insert(lines.index(next(line for line in lines if "-p go" in line)), f"cp {desk.home}/good.toml {config}")
    script = "\n".join(lines) + "\necho ALL DONE\n"
    with Terminal(["/bin/sh", "-c", script], cwd=desk.project, env=environment(desk), columns=160, rows=50) as terminal:
        terminal.wait_for_bytes(b"ALL DONE", timeout_s=120)
        assert terminal.wait_end() == 0
        return hostile.seen(bytes(terminal.raw))


# --------------------------------------------------------------------------- the gate


@contextmanager
def arranged(sequences: Sequence[str], *, split: bool) -> Iterator[Hostile]:
    with tempfile.TemporaryDirectory() as folder, ModelServer() as server:
        yield Hostile(Path(folder), server, sequences, split=split)


def measure(share: float) -> Reading:
    groups = [(SENDABLE[at : at + GROUP], split) for at in range(0, len(SENDABLE), GROUP) for split in (False, True)]
    random.Random(15).shuffle(groups)
    groups = groups[: max(1, round(share * len(groups)))]
    whole = share >= WHOLE_SHARE
    wanted = set(SINKS if whole else IN_A_TURN)

    def run(group: tuple[Sequence[str], bool]) -> tuple[int, set[str], Seen]:
        sequences, split = group
        with arranged(sequences, split=split) as hostile:
            return len(sequences), wanted, attack(hostile, whole=whole)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        runs = list(pool.map(run, groups))
    if whole:
        with arranged(SENDABLE, split=False) as hostile:
            runs.append((len(SENDABLE), set(PRINTED), printed(hostile)))
    trials = sum(count * len(seen.reached) for count, _, seen in runs)
    leaked, markup, fetched, wrong = (
        sum(len(faults) for faults in kind) for kind in zip(*(seen[1:] for _, _, seen in runs), strict=True)
    )
    missed = set[str]().union(*(sinks - seen.reached for _, sinks, seen in runs))
    words = f"{trials:,} sequences in sinks: {leaked} reached the terminal, {markup} read as markup, {fetched} fetched"
    if wrong:
        first = next(fault for _, _, seen in runs for fault in seen.wrong)
        words += f"; {wrong} runs not finished, one because {first}"
    words += f"; never shown: {', '.join(sorted(missed))}" if missed else ""
    return Reading(words, not (leaked or markup or fetched or wrong or missed))


GATE = Gate(
    "G15",
    f"Terminal: {len(SENDABLE)} sequences in {len(SINKS)} sinks, whole and split",
    "0 reach the terminal; 0 read as markup",
    "drawn as they are, 7 of 8 pass",
    measure,
)
