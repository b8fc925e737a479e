"""Opens real sessions in a real folder against the fake server: the whole agent behind the real SDK clients.

Nothing is patched: what a test decides is in files, arguments, environment, the server's script and the approver.
"""

import asyncio
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from msgspec.structs import replace

from agent.config.layers import load_config
from agent.config.paths import Paths, project_root
from agent.config.providers import provider_configs
from agent.context.tokens import Counter
from agent.events import Event, MessageCompleted, Notice, ToolFinished, TurnEnded
from agent.permissions.approval import Allow, Answer, ApprovalRequest
from agent.retry import RetryPolicy
from agent.session import Session
from agent.store import sessions
from agent.transcript import Entry, Payload, Transcript
from providers.types import TextBlock, Usage
from tests.fakes.grammar import check_grammar
from tests.fakes.model_server import json_reply
from tests.fakes.wires import Wire
from tui.launch.arguments import Arguments
from tui.launch.startup import Startup, overrides
from tui.launch.wiring import Opener

E = TypeVar("E", bound=Event)
P = TypeVar("P")
PRICE = "{ input = 3.0, output = 15.0, cache_read = 0.3, cache_write = 3.75 }"
_counter = Counter()


class Approver:
    """Answers from a list, then with `otherwise`; records what it was asked. `None` never answers."""

    def __init__(self, *answers: Answer | None, otherwise: Answer | None = None) -> None:
        self.requests: list[ApprovalRequest] = []
        self.asked = asyncio.Event()
        self._answers = list(answers)
        self._otherwise = otherwise if answers or otherwise is not None else Allow()

    async def __call__(self, request: ApprovalRequest) -> Answer:
        self.requests.append(request)
        self.asked.set()
        answer = self._answers.pop(0) if self._answers else self._otherwise
        if answer is None:
            await asyncio.Event().wait()
        assert answer is not None
        return answer


class Desk:
    """A project folder, a home and a server: where sessions are opened."""

    def __init__(self, wire: Wire, project: Path, home: Path, window_tokens: int = 200_000) -> None:
        self.wire = wire
        wire.server.always("/v1/models", json_reply({"data": [], "has_more": False}))
        self.project = project
        self.home = home
        self.env: dict[str, str] = {**wire.env, "CLAW_HOME": str(home), "HOME": str(home)}
        self.clock: Callable[[], datetime] = lambda: datetime(2026, 11, 30, 12, 0)
        (home / "config").mkdir(parents=True, exist_ok=True)
        (home / "config" / "config.toml").write_text(
            f'{wire.config}[models."{wire.model}"]\ncontext_window_tokens = {window_tokens}\n'
            f"max_output_tokens = 8192\nprice = {PRICE}\n"
        )

    @property
    def model(self) -> str:
        return f"{self.wire.provider}/{self.wire.model}"

    @property
    def folder(self) -> Path:
        return self.home / "data" / "sessions"

    def startup(self, cwd: Path | None = None, **arguments: Any) -> Startup:
        """As `tui.launch.startup.starting` makes it, for this desk instead of the process's own environment."""
        given = replace(Arguments(mode="auto", model=self.model), **arguments)
        paths = Paths.from_env(self.env)
        here = (cwd or self.project).resolve()
        project = project_root(here)
        loaded = load_config(paths, project, self.env, overrides(given))
        assert not [problem for problem in loaded.problems if problem.severity != "notice"], loaded.problems
        return Startup(given, self.env, paths, here, project, loaded, provider_configs(loaded, self.env, paths), "test")

    @asynccontextmanager
    async def open(
        self,
        resume: Path | None = None,
        *,
        approver: Approver | None = None,
        fork: bool = False,
        cwd: Path | None = None,
        retry_policy: RetryPolicy | None = None,
        listener: "type[Talk] | None" = None,
        counter: Counter = _counter,
        **arguments: Any,
    ) -> AsyncIterator["Talk"]:
        """A session with its events, closed at the end. What a new process would share with nobody is made anew."""
        if counter is _counter and not counter.ready:
            await asyncio.to_thread(counter.load)
        opener = Opener(
            self.startup(cwd, **arguments), counter=counter, clock=lambda: self.clock(), retry_policy=retry_policy
        )
        await asyncio.to_thread(opener.models.client(self.wire.provider).warm_up)
        talk = (listener or Talk)(self)
        talk.session = opener.open(talk.take, approver, resume, fork)
        try:
            yield talk
        finally:
            await talk.session.close()
        check_grammar(talk.events)
        assert self.wire.refusals == [], self.wire.refusals

    def bodies(self) -> list[Any]:
        return [request.json for request in self.wire.requests]

    def last_flat(self) -> list[tuple[str, Any]]:
        return self.wire.flat(self.bodies()[-1])

    def entries(self, session_id: str = "") -> list[Entry]:
        """The branch as it is on disk; of the only session if none is named."""
        paths = [path for path in self.folder.glob("*.db") if session_id in path.stem]
        assert len(paths) == 1, paths
        return list(Transcript(sessions.load(paths[0]).entries).branch)

    def payloads(self, kind: type[P], session_id: str = "") -> list[P]:
        return [entry.payload for entry in self.entries(session_id) if isinstance(entry.payload, kind)]


class Talk:
    """One open session and everything it told."""

    session: Session

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.events: list[Event] = []
        self._waiting: list[tuple[Callable[[Event], bool], asyncio.Future[Event]]] = []

    def take(self, event: Event) -> None:
        self.events.append(event)
        for condition, future in self._waiting:
            if not future.done() and condition(event):
                future.set_result(event)
        self._waiting = [(c, f) for c, f in self._waiting if not f.done()]

    async def seen(self, kind: type[E], condition: Callable[[E], bool] = lambda event: True) -> E:
        """Wait for the next event of a kind."""
        future: asyncio.Future[Event] = asyncio.get_running_loop().create_future()
        self._waiting.append((lambda event: isinstance(event, kind) and condition(event), future))
        found = await asyncio.wait_for(future, 40)
        assert isinstance(found, kind)
        return found

    async def requested(self, count: int) -> None:
        """Wait until the server has got so many requests."""
        await asyncio.to_thread(self.desk.wire.server.wait_for_requests, count)

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def path(self) -> Path:
        return self.desk.folder / f"{self.session.id}.db"

    @property
    def ended(self) -> TurnEnded:
        return self.of(TurnEnded)[-1]

    @property
    def results(self) -> list[ToolFinished]:
        return self.of(ToolFinished)

    @property
    def notices(self) -> list[str]:
        return [event.text for event in self.of(Notice)]

    @property
    def answer(self) -> str:
        blocks = self.of(MessageCompleted)[-1].blocks
        return "".join(block.text for block in blocks if isinstance(block, TextBlock))

    @property
    def usage(self) -> Usage:
        return sum((event.usage for event in self.of(MessageCompleted)), Usage())


def make_project(folder: Path, files: Mapping[str, str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def git(folder: Path, *arguments: str) -> str:
    """Run git without anyone's configuration."""
    env = {
        "PATH": "/usr/bin:/bin:/usr/local/bin", "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_AUTHOR_NAME": "t", "GIT_AUTHOR_EMAIL": "t@example.org", "GIT_COMMITTER_NAME": "t",
        "GIT_COMMITTER_EMAIL": "t@example.org",
    }  # fmt: skip
    done = subprocess.run(["git", *arguments], cwd=folder, env=env, check=True, capture_output=True, text=True)
    return done.stdout


def is_prefix(shorter: Sequence[Any], longer: Sequence[Any]) -> bool:
    return list(longer[: len(shorter)]) == list(shorter)


def kinds(payloads: Sequence[Payload] | Sequence[Entry]) -> list[str]:
    return [type(p.payload if isinstance(p, Entry) else p).__name__ for p in payloads]
