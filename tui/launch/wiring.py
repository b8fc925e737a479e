"""Puts the parts together: from arguments, environment and files to an open session. The one place that sees all layers.

Opening is quick and imports no SDK; what is heavy (SDK, tokenizer, prices) is loaded in threads beside the first request.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import msgspec

from agent.calls import CallRunner
from agent.config.trust import is_trusted
from agent.context.budget import ContextSettings
from agent.context.meter import Meter
from agent.context.superseded import ShownFiles
from agent.context.tokens import TOKENIZER, Counter
from agent.conversation import Conversation
from agent.events import Emit, Notice
from agent.images import image_limits
from agent.instructions.discovery import Place
from agent.instructions.in_force import InstructionsInForce
from agent.instructions.on_disk import InstructionsOnDisk
from agent.interrupted_writes import clear_up
from agent.jobs import Jobs
from agent.permissions.approval import Approver
from agent.permissions.configured import configured_rules
from agent.permissions.consents import Consents
from agent.permissions.gate import Gate, Mode
from agent.permissions.grants import Grants
from agent.permissions.path_pattern import PathScope
from agent.permissions.rules import RuleError
from agent.permissions.workspace import Workspace
from agent.processes import Spawner
from agent.recall import OtherSession, Recall
from agent.recorder import Recorder
from agent.redacted_events import RedactedEvents
from agent.redaction import KnownValues
from agent.registry import Registry
from agent.results import SpillFolder
from agent.retry import RetryPolicy
from agent.session import Session
from agent.session_secrets import SessionSecrets
from agent.snapshots import workspace_reader
from agent.starting import Beginning, Said, opening_payloads, reminders
from agent.store import sessions
from agent.store.base import SessionStore
from agent.store.index import SessionIndex
from agent.tools.base import ToolContext
from agent.tools.built_in import built_in_tools
from agent.transcript import Transcript
from agent.window import Window
from providers.types import Effort
from tui.launch.compaction_setup import compaction_setup
from tui.launch.known_secrets import known_secrets
from tui.launch.model_choice import Models
from tui.launch.session_files import SessionFiles, SessionNews
from tui.launch.startup import SetupError, Startup, reachable
from tui.launch.tool_choice import chosen_tools


class Opener:
    """Opens the sessions of one process; `models` is shared between them."""

    def __init__(
        self,
        startup: Startup,
        *,
        counter: Counter | None = None,
        clock: Callable[[], datetime] = datetime.now,
        retry_policy: RetryPolicy | None = None,
    ) -> None:
        """`clock` says what day it is, for what the model is told."""
        self.startup = startup
        self._known_secrets = KnownValues(known_secrets(startup))
        self.models = Models(startup, counter or Counter())
        self._clock = clock
        self._retry_policy = retry_policy or RetryPolicy()
        self._index = SessionIndex(startup.paths.sessions, startup.paths.index_file)

    def renew(self, startup: Startup) -> None:
        """Other settings from now on: for the sessions to come, and which models there are for all."""
        self.startup = startup
        self._known_secrets.learn(known_secrets(startup))
        self.models.renew(startup)

    def prepare(self) -> None:
        """Import what opening a session would otherwise import in the event loop; call it in a thread."""
        built_in_tools()
        with contextlib.suppress(SetupError):
            self.models.client(self.startup.default_name().partition("/")[0])

    def open(
        self,
        emit: Emit,
        approver: Approver | None,
        resume: Path | None = None,
        fork: bool = False,
        loop: asyncio.AbstractEventLoop | None = None,
        read_only: str = "",
    ) -> Session:
        """A new session, or the one in the file `resume`, or a fork of it, or that file only to be read, for a reason.

        Call it in the event loop of the session; or in a thread, since a long session takes its time, and name the loop.

        Raises:
            SessionTakenError: the session cannot be written here, and there is an approver, so somebody can be asked.
            SetupError: no model, or the session cannot be opened.
        """
        files = SessionFiles(self.startup, self._index, SessionNews(emit, loop or asyncio.get_running_loop()))
        if resume is None or fork:
            store, transcript, loaded, session_id = files.begun(resume)
        else:
            can_ask = approver is not None
            store, transcript, loaded, session_id = files.resumed(resume, read_only, can_ask=can_ask)
        try:
            return self._session(emit, approver, store, transcript, loaded, session_id)
        except BaseException as error:
            store.close()
            if isinstance(error, ValueError):  # an environment variable that sets a threshold
                raise SetupError(str(error)) from None
            raise

    def _session(
        self,
        emit: Emit,
        approver: Approver | None,
        store: SessionStore,
        transcript: Transcript,
        loaded: sessions.LoadedSession | None,
        session_id: str,
    ) -> Session:
        startup = self.startup
        config = startup.loaded.config
        secrets = SessionSecrets(self._known_secrets, loaded.entries if loaded is not None else ())
        if startup.env.get("CLAW_LOG"):
            from tui.launch.log import logged

            emit = logged(emit)
        emit = RedactedEvents(secrets, emit)
        recorder = Recorder(transcript, store, self._meter(loaded))
        effort = startup.arguments.effort or recorder.window.effort or config.effort
        model = self.models.choose(self._session_model(recorder.window), msgspec.convert(effort, Effort | None))
        workspace, spawner = self._workspace(session_id), Spawner(extra=config.commands.environment)
        gate = self._gate(workspace, emit)
        said = Said(startup.arguments.tools, startup.arguments.append_system_prompt.strip() or None)
        said = said.or_before(transcript.branch)
        tools = chosen_tools(said.tools)
        registry = Registry()
        disk = InstructionsOnDisk(
            self._place(workspace),
            config.instructions,
            registry,
            enabled=not startup.arguments.no_instructions,
            # Where nobody can be asked, what was not decided before is refused.
            consents=Consents(startup.paths.state_file, startup.project, can_ask=approver is not None),
            effective_window_tokens=lambda: conversation.limits.effective,
            count_tokens=self.models.counter.count,
        )
        beginning = Beginning(
            disk,
            registry,
            config,
            tuple(tools.values()),
            startup.version,
            count_tokens=self.models.counter.count,
            clock=self._clock,
            said=said,
        )
        spills = SpillFolder(startup.paths.spills / session_id)
        conversation = Conversation(
            session_id,
            recorder,
            model,
            msgspec.convert(msgspec.to_builtins(config.context), ContextSettings),
            startup.env,
            emit,
            beginning.prefix,
            spills,
            compaction=compaction_setup(startup, self.models, spawner, workspace, emit, secrets.text),
            max_cost_usd=config.limits.max_cost,
            queue=list(loaded.queue) if loaded is not None and not store.read_only else [],
            retry_policy=self._retry_policy,
            secrets=secrets,
        )
        recall = self._recall(recorder, session_id)
        shown_files = ShownFiles(transcript, recorder.window)
        conversation.jobs = jobs = Jobs(spawner, spills.folder, emit, secrets=secrets)
        jobs.take_past(transcript.branch)
        conversation.calls = CallRunner(
            tools,
            gate,
            approver,
            lambda call_id, progress: ToolContext(
                call_id,
                workspace,
                spawner,
                conversation.known_files,
                progress,
                recall,
                shows_whole=shown_files.whole,
                image_limits=image_limits(conversation.facts.api) if conversation.facts.images else None,
                jobs=jobs,
            ),
            conversation,
            emit,
            secrets.output,
        )
        conversation.instructions = InstructionsInForce(disk, conversation)
        conversation.take_past()
        unanswered = len(recorder.window.open_calls)
        if unanswered and not store.read_only:  # what is only read may be running elsewhere
            emit(_interrupted(unanswered))
            clear_up(transcript.branch, recorder.window.open_calls, workspace)
        return Session(
            conversation,
            gate,
            spawner,
            startup.project,
            startup.cwd,
            self.models.choose,
            lambda: opening_payloads(beginning, conversation, gate.mode),
            lambda opening: reminders(beginning, conversation, gate.mode, opening),
            recall=recall,
            read_file=workspace_reader(workspace, secrets.text),
            load_prices=self.models.load_prices,
            load_tokenizer=self.models.load_tokenizer,
            max_turns=config.limits.max_turns,
        )

    def _place(self, workspace: Workspace) -> Place:
        startup = self.startup
        trusted = is_trusted(startup.project, startup.paths, this_run=startup.arguments.trust)
        added = tuple(folder for folder in workspace.extra if is_trusted(folder, startup.paths))
        return Place(startup.paths, startup.project, startup.cwd, added, trusted, workspace.is_closed)

    def _recall(self, recorder: Recorder, session_id: str) -> Recall:
        folder, project = self.startup.paths.sessions, self.startup.project

        def others() -> Iterator[OtherSession]:
            for id_, entries in sessions.of_project(folder, project, without=session_id):
                yield OtherSession(id_, entries)

        return Recall(recorder.transcript, recorder.store.blob, others)

    def _meter(self, loaded: sessions.LoadedSession | None) -> Meter:
        meter = Meter(self.models.counter)
        if loaded is not None:
            meter.load_counts(loaded.counts.get(TOKENIZER, {}))
        return meter

    def _session_model(self, window: Window) -> str:
        """What the command line says, else what the session used last if that can still be reached, else the default."""
        if window.model and self.startup.arguments.model is None:
            config = self.startup.providers.get(window.provider)
            if config is not None and reachable(config):
                return f"{window.provider}/{window.model}"
        return self.startup.default_name()

    def _gate(self, workspace: Workspace, emit: Emit) -> Gate:
        startup = self.startup
        home = startup.paths.home
        layer, problems = configured_rules(startup.loaded.config.permissions, PathScope(workspace.root, home))
        mode = startup.mode
        if any(problem.forbids for problem in problems) and mode in ("auto", "edits"):
            mode = "ask"
        try:
            gate = Gate(
                msgspec.convert(mode, Mode),
                workspace,
                (layer,),
                grants=Grants(startup.paths.state_file),
                allowed_tools=startup.arguments.allowed_tools,
                disallowed_tools=startup.arguments.disallowed_tools,
                home=home,
            )
        except RuleError as error:
            raise SetupError(f"{error}\nRules are written as in --allowed-tools 'edit, bash(git log)'.") from None
        for text in (*(problem.text for problem in problems), *gate.problems):
            emit(Notice("warning", text, "`claw config show` says where it comes from."))
        return gate

    def _workspace(self, session_id: str) -> Workspace:
        startup = self.startup
        extra = [Path(d).expanduser().resolve() for d in startup.arguments.add_dirs]
        extra += [Path(d).expanduser().resolve() for d in startup.loaded.config.permissions.allowed_directories]
        return Workspace(startup.project, startup.cwd, tuple(extra), (startup.paths.spills / session_id,))


def _interrupted(calls: int) -> Notice:
    what = (
        "1 call was interrupted; its effects are"
        if calls == 1
        else f"{calls} calls were interrupted; their effects are"
    )
    return Notice("warning", f"{what} unknown.", "The model is told so; check what they may have changed.")
