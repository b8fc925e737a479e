"""What claw does while it is killed: five scripts of real sessions, played against a scripted provider in the same process.

Each notes on the side, on a descriptor that the killing does not count, what it has been promised: the messages of every
request that left, and what was asked for before it. tests/faults/crash_judge.py holds the session file against that.
"""

import asyncio
import hashlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from agent.config.layers import load_config
from agent.config.paths import Paths, project_root
from agent.config.providers import provider_configs
from agent.context.pieces import Edit
from agent.context.tokens import Counter
from agent.events import CompactionFinished, Event
from agent.permissions.approval import Allow, Answer, ApprovalRequest
from agent.session import Session
from providers.base import ModelRequest, Provider
from providers.demo_story import wants_summary
from providers.errors import ContextOverflowError
from providers.scripted import Call, Item, Say, ScriptedProvider
from providers.types import Message, ToolResultMessage, UserMessage
from tests.fakes.kill_points import SIDE_FD
from tui.launch.arguments import Arguments
from tui.launch.model_choice import Models
from tui.launch.startup import Startup, overrides
from tui.launch.wiring import Opener

MODEL = "anthropic/claude-test"
SIDE, RAN = "side.jsonl", "ran.log"
SOURCE = "count = 0\n" + "".join(f"line_{number} = {number}\n" for number in range(60))
SUMMARY = (
    "## Goal\nKeep count.\n## Constraints and preferences\nNone were named.\n## Progress\n### Done\nread and counted\n"
    "## Key decisions\n(none)\n## Next steps\n1. count on\n## Critical context\n(none)"
)


class Place(msgspec.Struct, frozen=True):
    """Where one run plays."""

    root: str
    window_tokens: int = 200_000

    @property
    def project(self) -> Path:
        return Path(self.root) / "project"

    @property
    def home(self) -> Path:
        return Path(self.root) / "home"

    @property
    def sessions(self) -> Path:
        return self.home / "data" / "sessions"

    @property
    def env(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "CLAW_HOME": str(self.home),
            "HOME": str(self.home),
            "ANTHROPIC_API_KEY": "test-key-0123456789",
        }

    def lay_out(self) -> None:
        """Make project, home and configuration."""
        self.project.mkdir(parents=True)
        (self.project / "count.py").write_text(SOURCE)
        (self.home / "config").mkdir(parents=True)
        (self.home / "config" / "config.toml").write_text(
            f'[models."claude-test"]\ncontext_window_tokens = {self.window_tokens}\nmax_output_tokens = 1024\n'
            "price = { input = 3.0, output = 15.0, cache_read = 0.3, cache_write = 3.75 }\n"
        )


def digest(messages: Sequence[Message]) -> str:
    return hashlib.sha256(msgspec.json.encode(list(messages))).hexdigest()


# ------------------------------------------------------------------ opening


class _Models(Models):
    """One provider for all names; nothing is loaded beside the work."""

    provider: Provider

    def client(self, name: str) -> Provider:
        return self.provider

    def load_prices(self) -> None:
        pass

    def load_tokenizer(self) -> None:
        pass


def opener(place: Place, reply: Callable[[ModelRequest], Iterable[Item]]) -> Opener:
    """Opens sessions of the place with a provider that answers with `reply`."""
    arguments = Arguments(mode="auto", model=MODEL)
    env: Mapping[str, str] = place.env
    paths, here = Paths.from_env(env), place.project.resolve()
    loaded = load_config(paths, project_root(here), env, overrides(arguments))
    assert not loaded.problems, loaded.problems
    startup = Startup(
        arguments, env, paths, here, project_root(here), loaded, provider_configs(loaded, env, paths), "test"
    )
    made = Opener(startup)
    models = _Models(startup, Counter())
    models.provider = ScriptedProvider(startup.providers["anthropic"], reply, record=0)
    made.models = models
    return made


async def allow(request: ApprovalRequest) -> Answer:
    return Allow()


# ------------------------------------------------------------------ the model


class Model:
    """Answers a turn's steps by how many results stand behind its newest message, and notes what it was sent."""

    def __init__(self, place: Place) -> None:
        self._descriptor = os.open(Path(place.root) / SIDE, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(self._descriptor, SIDE_FD)
        self.plans: dict[str, list[list[Item]]] = {}
        """Word in the newest message → the replies of its turn."""
        self.done: list[str] = []
        """What was asked for so far, beside messages."""
        self.refuse = False
        """Whether the next ordinary request is said to be too long."""

    def __call__(self, request: ModelRequest) -> Iterable[Item]:
        is_summary = wants_summary(request)
        shared = not is_summary or bool(request.extra)
        note = {"sent": digest(request.messages) if shared else "", "done": self.done, "summary": is_summary}
        os.write(SIDE_FD, msgspec.json.encode(note) + b"\n")
        if is_summary:
            return [Say(SUMMARY, piece_chars=40)]
        if self.refuse:
            self.refuse = False
            raise ContextOverflowError("prompt is too long: 7000 tokens > 6000 maximum")
        return self._step(request.messages)

    def _step(self, messages: Sequence[Message]) -> Iterable[Item]:
        asked = next(at for at in range(len(messages) - 1, -1, -1) if isinstance(messages[at], UserMessage))
        text = " ".join(getattr(block, "text", "") for block in messages[asked].blocks)
        step = sum(isinstance(message, ToolResultMessage) for message in messages[asked:])
        plan = next((plan for word, plan in self.plans.items() if word in text), [])
        made = 0
        for reply in plan:
            if made == step:
                return reply
            made += sum(isinstance(item, Call) for item in reply)
        return [Say("All of it is done.")]


def working(turn: int) -> list[list[Item]]:
    """The replies of a turn that reads, edits, and runs a command whose effect stands on the disk."""
    edit = {"path": "count.py", "edits": [{"old": f"count = {turn - 1}\n", "new": f"count = {turn}\n"}]}
    note = {"path": f"note_{turn}.txt", "content": f"note {turn}\n" * 200}
    return [
        [Say(f"I look, {turn}."), Call(f"r{turn}", "read", {"path": "count.py", "limit": 20})],
        [Say("I change it."), Call(f"e{turn}", "edit", edit), Call(f"w{turn}", "write", note)],
        [Call(f"b{turn}", "bash", {"command": f"echo b{turn} >> ../{RAN}; echo ran {turn}"})],
    ]


def talking(turn: int, words: int = 40) -> list[list[Item]]:
    """The replies of a turn that fills the window."""
    look = {"path": "count.py", "offset": 1 + turn, "limit": 40}
    return [[Say(f"Once more, {turn}. " + "word " * words), Call(f"t{turn}", "read", look)], [Say("fact " * words)]]


class Run:
    """One session being worked with."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.model = Model(place)
        self.opener = opener(place, self.model)
        self.session: Session
        self.compactions = 0

    def open(self, resume: Path | None = None, fork: bool = False) -> None:
        self.session = self.opener.open(self.take, allow, resume, fork)

    def take(self, event: Event) -> None:
        if isinstance(event, CompactionFinished) and event.key is not None:
            self.compactions += 1

    async def say(self, text: str) -> None:
        ended = await self.session.prompt(text)
        assert ended.reason == "done", ended

    def edit(self, plan: Any) -> None:
        assert isinstance(plan, Edit), plan
        self.session.editor.apply(plan)


# ------------------------------------------------------------------ the scripts


async def plain(run: Run) -> None:
    """Three turns with tools."""
    run.model.plans = {f"turn {turn}": working(turn) for turn in (1, 2, 3)}
    run.open()
    for turn in (1, 2, 3):
        await run.say(f"turn {turn}")
    await run.session.close()


async def long_text(run: Run) -> None:
    """Long replies that arrive in pieces, one of them interrupted."""
    thinking = Say("I think about it. " * 30, piece_chars=18, thinking=True)
    slow = Say("A long sentence that goes on. " * 60, chars_per_s=60_000, piece_chars=30)
    run.model.plans = {"tell": [[thinking, slow, Say("The end.")]]}
    run.open()
    for number in range(6):
        await run.say(f"tell {number}")
    turn = asyncio.ensure_future(run.session.prompt("tell more"))
    await asyncio.sleep(0.01)
    run.session.interrupt()
    await turn
    await run.say("tell again")
    await run.session.close()


async def compacting(run: Run) -> None:
    """Compactions by themselves and by hand, with pins, and one taken back."""
    run.model.plans = {"fill": talking(1, 300), "work": working(1)}
    run.open()
    await run.say("work")
    run.edit(run.session.editor.plan_pin_text("count is never negative"))
    run.model.done.append("pin")
    for number in range(5):
        await run.say(f"fill {number}")
    finished = await run.session.compact()
    if finished.key is not None:
        run.model.done.append("manual")
    await run.say("fill again")
    await run.session.undo_compaction()
    run.model.done.append("undo")
    await run.say("fill the rest")
    await run.session.compact("what was counted")
    await run.session.close()


async def editing(run: Run) -> None:
    """Undo and redo of edits of the window, pins, settings, messages that wait, a command of the user's own."""
    run.model.plans = {"work": working(1), "fill": talking(2)}
    run.open()
    await run.say("work")
    session = run.session
    editor = session.editor
    session.set_title("Counting")
    run.model.done.append("title")
    run.edit(editor.plan("pin"))
    session.set_effort("high")
    run.model.done.append("effort")
    await session.run_shell("echo shell says so")
    run.model.done.append("shell")
    await run.say("fill 1")
    run.edit(editor.plan_pin_text("a text of mine"))
    run.model.done.append("pin")
    editor.undo()
    turn = asyncio.ensure_future(session.prompt("fill 2"))
    await asyncio.sleep(0)
    session.steer("and this")
    session.steer("later that", after_turn=True)
    session.steer("not this", after_turn=True)
    assert session.take_back() == "not this"
    run.model.done.append("queue")
    await turn
    await session.prompt_next()
    editor.undo()
    session.set_mode("edits")
    run.model.done.append("mode")
    await run.say("fill 3")
    await session.close()


async def resuming(run: Run) -> None:
    """An old session is gone on with, forked, and the fork gone on with."""
    run.model.plans = {f"turn {turn}": working(turn) for turn in (1, 2, 3)}
    old = next(run.place.sessions.glob("*.db"))
    run.open(old)
    await run.say("turn 2")
    await run.session.close()
    run.open(old, fork=True)
    await run.say("turn 3")
    run.session.set_title("A fork")
    run.model.done.append("title")
    await run.say("tell")
    await run.session.close()
    run.open(old)
    await run.say("tell")
    await run.session.close()


async def first_turn(run: Run) -> None:
    """What the session was that is gone on with."""
    run.model.plans = {"turn 1": working(1)}
    run.open()
    await run.say("turn 1")
    await run.session.close()


async def filled(run: Run) -> None:
    """What the session was that is compacted."""
    run.model.plans = {"fill": talking(1, 300), "work": working(1)}
    run.open()
    await run.say("work")
    run.edit(run.session.editor.plan_pin_text("count is never negative"))
    for number in range(3):
        await run.say(f"fill {number}")
    await run.session.close()


async def _go_on_compacted(run: Run) -> None:
    assert run.compactions, "nothing was compacted"
    await run.say("tell")
    await run.session.close()


async def by_itself(run: Run) -> None:
    """The window is full, so it is compacted in the middle of a turn."""
    run.model.plans = {"fill": talking(1, 300)}
    run.open(next(run.place.sessions.glob("*.db")))
    while not run.compactions:
        await run.say("fill more")
    await _go_on_compacted(run)


async def by_hand(run: Run) -> None:
    """`/compact`."""
    run.open(next(run.place.sessions.glob("*.db")))
    await run.session.compact()
    run.model.done.append("manual")
    await _go_on_compacted(run)


async def by_overflow(run: Run) -> None:
    """The server says that the request is too long."""
    run.model.plans = {"fill": talking(1, 30)}
    run.model.refuse = True
    run.open(next(run.place.sessions.glob("*.db")))
    await run.say("fill more")
    await _go_on_compacted(run)


SCRIPTS = {each.__name__: each for each in (plain, long_text, compacting, editing, resuming)}
COMPACTIONS = {each.__name__: each for each in (by_itself, by_hand, by_overflow)}
_ALL = {**SCRIPTS, **COMPACTIONS, "first_turn": first_turn, "filled": filled}
BEGINNINGS = {"resuming": "first_turn", **dict.fromkeys(COMPACTIONS, "filled")}
"""Script → what is played first, and not killed."""
WINDOWS = dict.fromkeys(("compacting", *COMPACTIONS), 6_000)


def play(argument: Mapping[str, Any]) -> None:
    """Play one script to its end: {name, root, window_tokens}."""
    run = Run(Place(argument["root"], argument["window_tokens"]))
    asyncio.run(_ALL[argument["name"]](run))
