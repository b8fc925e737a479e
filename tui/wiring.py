"""Puts the parts together: from arguments, environment and files to an open session. The one place that sees all layers.

Opening is quick and imports no SDK; what is heavy (SDK, tokenizer, prices) is loaded in threads beside the first request.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

import msgspec

from agent.calls import CallRunner
from agent.context.budget import ContextSettings
from agent.context.meter import Meter
from agent.context.o200k import TokenizerUnavailableError
from agent.context.tokens import TOKENIZER, Counter
from agent.conversation import Conversation, Model
from agent.events import Emit, Notice
from agent.instructions.discovery import Place
from agent.model_listing import save_listing
from agent.permissions.approval import Approver
from agent.permissions.configured import configured_rules
from agent.permissions.gate import Gate, Mode
from agent.permissions.grants import Grants
from agent.permissions.path_pattern import PathScope
from agent.permissions.rules import RuleError
from agent.permissions.workspace import Workspace
from agent.processes import Spawner
from agent.recorder import Recorder
from agent.results import SpillFolder
from agent.retry import RetryPolicy
from agent.session import Session
from agent.starting import Beginning, opening_payloads
from agent.store import sessions
from agent.store.base import NoStore, SessionStore
from agent.store.lock import SessionBusyError
from agent.store.schema import SchemaError
from agent.tools.base import ToolContext
from agent.tools.built_in import built_in_tools
from agent.transcript import Setting, Transcript
from providers import registry
from providers.base import ListedModel, Provider
from providers.errors import ProviderError
from providers.model_table import MODELS
from providers.models import Catalogue, ModelFacts, load_catalogue, model_facts
from providers.types import Effort, ProviderConfig
from tui.startup import NoKeyError, SetupError, Startup, reachable


class Opener:
    """Opens the sessions of one process; clients, tokenizer and price catalogue are shared between them."""

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
        self.counter = counter or Counter()
        self._clock = clock
        self._retry_policy = retry_policy or RetryPolicy()
        self._clients: dict[str, Provider] = {}
        self._catalogue: Catalogue | None = None
        self._listed: dict[str, ListedModel] = {}

    # ------------------------------------------------------------------ models

    def choose_model(self, name: str, effort: Effort | None = None) -> Model:
        """
        Raises:
            ValueError: no such provider.
        """
        provider, _, model_id = self.startup.qualified(name).partition("/")
        config = self.startup.providers[provider]
        if not reachable(config):
            raise NoKeyError(provider)
        if effort is None:
            effort = self.startup.arguments.effort or self.startup.loaded.config.effort  # type: ignore[assignment]
        return Model(self.client(provider), self.facts(config, model_id), effort)

    def prepare(self) -> None:
        """Import what opening a session would otherwise import in the event loop; call it in a thread."""
        built_in_tools()
        with contextlib.suppress(SetupError):
            self.client(self.startup.default_name().partition("/")[0])

    def client(self, name: str) -> Provider:
        if name not in self._clients:
            self._clients[name] = registry.create(self.startup.providers[name], counter=self.counter.count)
        return self._clients[name]

    def facts(self, config: ProviderConfig, model_id: str) -> ModelFacts:
        overrides = self.startup.loaded.config.models
        override = overrides.get(f"{config.name}/{model_id}") or overrides.get(model_id)
        listed = self._listed.get(f"{config.name}/{model_id}")
        return model_facts(config, model_id, override, listed, self._catalogue)

    def load_prices(self) -> None:
        """Load the price catalogue, which no request needs. Blocks; call it in a thread."""
        if self._catalogue is None:
            self._catalogue = load_catalogue()

    def load_tokenizer(self) -> None:
        """The same for the tokenizer."""
        with contextlib.suppress(TokenizerUnavailableError):
            self.counter.load()

    async def listed(self, provider: str, patience_s: float) -> Sequence[ListedModel]:
        """What the provider's server lists now; kept for the next start.

        Raises:
            ProviderError, TimeoutError: it does not answer.
        """
        client = self.client(provider)
        async with asyncio.timeout(patience_s):
            models = await client.list_models()
        self._listed.update({f"{provider}/{model.id}": model for model in models})
        await asyncio.to_thread(save_listing, self.startup.paths.models, client.config, models)
        return models

    async def corrected_default(self, patience_s: float) -> str | None:
        """PROVIDER/MODEL to use where none was named, once the server was asked; None: the default stands."""
        if self.startup.named_model is not None:
            return None
        default = self.startup.default_name()
        provider = default.partition("/")[0]
        with contextlib.suppress(ProviderError, TimeoutError):
            await self.listed(provider, patience_s)
        corrected = self.startup.default_name()
        return None if corrected == default else corrected

    async def model_choices(self, patience_s: float) -> list[tuple[str, str]]:
        """(PROVIDER/MODEL, a few words) for every provider that can be reached, as its server lists them, else from the table."""
        choices: list[tuple[str, str]] = []
        for name, config in self.startup.providers.items():
            if not reachable(config):
                continue
            ids: list[str] = []
            with contextlib.suppress(ProviderError, TimeoutError):
                ids = [model.id for model in await self.listed(name, patience_s)]
            for model_id in ids or [known for known, row in MODELS.items() if row.api == config.api]:
                facts = self.facts(config, model_id)
                choices.append((f"{name}/{model_id}", _detail(facts)))
        return choices

    # ------------------------------------------------------------------ sessions

    def open(
        self,
        emit: Emit,
        approver: Approver | None,
        resume: Path | None = None,
        fork: bool = False,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> Session:
        """A new session, or the one in the file `resume`, or a fork of it.

        Call it in the event loop of the session; or in a thread, since a long session takes its time, and name the loop.

        Raises:
            SetupError: no model, or the session cannot be opened.
        """
        store, transcript, loaded, session_id = self._store(emit, loop or asyncio.get_running_loop(), resume, fork)
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
        name = self._session_model(transcript)
        model = self.choose_model(name)
        workspace, spawner = self._workspace(session_id), Spawner()
        gate = self._gate(workspace, emit)
        tools = {tool.name: tool for tool in built_in_tools()}
        meter = Meter(self.counter)
        if loaded is not None:
            meter.load_counts(loaded.counts.get(TOKENIZER, {}))
        place = Place(startup.paths, startup.project, startup.cwd, workspace.extra)
        beginning = Beginning(
            place,
            config,
            tuple(tools.values()),
            startup.version,
            use_instructions=not startup.arguments.no_instructions,
            clock=self._clock,
        )
        spills = SpillFolder(startup.paths.spills / session_id)
        conversation = Conversation(
            session_id,
            Recorder(transcript, store, meter),
            model,
            msgspec.convert(msgspec.to_builtins(config.context), ContextSettings),
            startup.env,
            emit,
            lambda: beginning.prefix(conversation.limits.effective, self.counter.count),
            spills,
            max_cost_usd=startup.arguments.max_cost or config.limits.max_cost,
            queue=list(loaded.queue) if loaded is not None else [],
            retry_policy=self._retry_policy,
        )
        conversation.calls = CallRunner(
            tools,
            gate,
            approver,
            lambda call_id, progress: ToolContext(call_id, workspace, spawner, conversation.known_files, progress),
            conversation.record_result,
            emit,
        )
        conversation.take_past()
        if unanswered := len(conversation.recorder.window.open_calls):
            emit(_interrupted(unanswered))
        return Session(
            conversation,
            gate,
            spawner,
            startup.project,
            startup.cwd,
            self.choose_model,
            lambda: opening_payloads(beginning, conversation, gate.mode),
            lambda opening: beginning.reminders(
                transcript.branch, conversation.recorder.window, conversation.known_files, opening
            ),
            load_prices=self.load_prices,
            load_tokenizer=self.load_tokenizer,
            max_turns=startup.arguments.max_turns or config.limits.max_turns,
        )

    def _store(
        self, emit: Emit, loop: asyncio.AbstractEventLoop, resume: Path | None, fork: bool
    ) -> tuple[SessionStore, Transcript, sessions.LoadedSession | None, str]:
        def complain(text: str) -> None:
            notice = Notice("error", text, "Free some space or check the folder's permissions.")
            with contextlib.suppress(RuntimeError):  # the writer's thread may outlive the loop
                loop.call_soon_threadsafe(emit, notice)

        startup = self.startup
        if resume is None:
            if startup.arguments.no_session:
                return NoStore(), Transcript(), None, sessions.new_id()
            store = sessions.new_session(startup.paths.sessions, startup.project, complain)
            return store, Transcript(), None, store.meta.id
        try:
            opened, loaded = (sessions.fork if fork else sessions.open_session)(resume, complain)
        except SessionBusyError as error:
            raise SetupError(f"{error}\nAdd --fork to go on in a copy of it.") from None
        except SchemaError as error:
            raise SetupError(str(error)) from None
        if loaded.damaged:
            emit(Notice("warning", f"{loaded.damaged} entries of the session could not be read and are left out."))
        return opened, Transcript(loaded.entries), loaded, loaded.meta.id

    def _session_model(self, transcript: Transcript) -> str:
        """What the command line says, else what the session used last if that can still be reached, else the default."""
        settings = [e.payload for e in transcript.branch if isinstance(e.payload, Setting) and e.payload.model]
        recorded = f"{settings[-1].provider}/{settings[-1].model}" if settings else ""
        if recorded and self.startup.arguments.model is None:
            config = self.startup.providers.get(recorded.partition("/")[0])
            if config is not None and reachable(config):
                return recorded
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


def _detail(facts: ModelFacts) -> str:
    window = facts.context_window_tokens
    size = f"{window / 1_000_000:g}M" if window >= 1_000_000 else f"{window // 1000}k"
    price = f" · ${facts.price.input:g} in, ${facts.price.output:g} out per million" if facts.price is not None else ""
    return f"{size} window{price}"
