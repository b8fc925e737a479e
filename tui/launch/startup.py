"""Reads what a start depends on: folders, configuration, providers. Cheap, since the first frame waits for it."""

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from agent.config.layers import LoadedConfig, load_config
from agent.config.paths import HomeError, Paths, project_root
from agent.config.providers import known_local, provider_configs
from agent.config.trust import is_trusted
from agent.events import Notice
from agent.model_listing import read_listing
from providers.models import default_model, is_loopback, pick_default
from providers.types import ProviderConfig
from tui.launch.arguments import Arguments

DEMO_MODEL = "scripted/demo"


class SetupError(Exception):
    """claw cannot start like this; the text says what is wrong and what to do."""


class NoKeyError(SetupError):
    """No model can be reached: there is no key and no local server."""

    def __init__(self, provider: str = "") -> None:
        """`provider`: the one that was asked for by name."""
        what = f"There is no key for {provider}." if provider else "There is no key for a model."
        how = (
            "Set its variable; `claw config show` names it."
            if provider
            else "Set ANTHROPIC_API_KEY or OPENAI_API_KEY, or see how it works with `claw demo`."
        )
        super().__init__(f"{what}\n{how}")
        self.detail = what if provider else ""


class Startup(Struct, frozen=True):
    """What is known before a session is opened."""

    arguments: Arguments
    env: Mapping[str, str]
    paths: Paths
    cwd: Path
    project: Path
    loaded: LoadedConfig
    providers: dict[str, ProviderConfig]
    version: str

    def default_name(self) -> str:
        """PROVIDER/MODEL for a new session: the one that was named, else that of the first provider that can be reached.

        Raises:
            NoKeyError: nothing is configured that could answer, or the named model's provider has no key.
            SetupError: the named model's provider is unknown.
        """
        if named := self.named_model:
            name = self.qualified(named)
            provider = name.partition("/")[0]
            if not reachable(self.providers[provider]):
                raise NoKeyError(provider)
            return name
        for name, config in self.providers.items():
            if reachable(config):
                return f"{name}/{self._default_id(config)}"
        raise NoKeyError

    def has_listing(self) -> bool:
        """Whether the default model needs no further correction: it was named, or the server's listing is known."""
        if self.named_model is not None:
            return True
        config = self.providers[self.default_name().partition("/")[0]]
        return config.api == "scripted" or bool(read_listing(self.paths.models, config))

    def _default_id(self, config: ProviderConfig) -> str:
        """The newest of the middle class in the offline table, corrected by what the server listed last."""
        offline = default_model(config.api)
        listed = read_listing(self.paths.models, config)
        return offline if not listed or any(m.id == offline for m in listed) else pick_default(listed, config.api)

    @property
    def named_model(self) -> str | None:
        """What the command line or the configuration names."""
        return self.arguments.model or self.loaded.config.model

    def qualified(self, name: str) -> str:
        """The name as PROVIDER/MODEL; the provider of well-known ids may be left out.

        Raises:
            SetupError: it names no provider that there is.
        """
        provider, slash, model_id = name.partition("/")
        if slash and provider not in self.providers and (local := known_local(provider)) is not None:
            self.providers[provider] = local  # named by hand, which is what it takes
        if slash and provider in self.providers and model_id:
            return name
        guess = (
            "anthropic" if name.startswith("claude") else "openai" if name.startswith(("gpt", "o1", "o3", "o4")) else ""
        )
        if not slash and guess in self.providers:
            return f"{guess}/{name}"
        known = ", ".join(sorted(self.providers))
        raise SetupError(
            f"{name!r} names no model that can be reached.\nWrite PROVIDER/MODEL; the providers are: {known}."
        )

    @property
    def mode(self) -> str:
        wanted = self._wanted_mode
        # What forbids could not be read: nothing may run unasked on the strength of the rest.
        return "ask" if self.loaded.damaged and wanted in ("auto", "edits") else wanted

    @property
    def _wanted_mode(self) -> str:
        return self.arguments.mode or self.loaded.config.permissions.mode or "ask"

    @property
    def notices(self) -> tuple[Notice, ...]:
        """What is wrong with the configuration, and what holds in spite of it."""
        levels = {"error": "error", "warning": "warning", "notice": "info"}
        told = [Notice(levels[p.severity], str(p)) for p in self.loaded.problems]  # type: ignore[arg-type]
        if self.loaded.has_errors:
            text = "Everything else in the configuration holds."
            if self.mode != (wanted := self._wanted_mode):
                text += f" The mode is {self.mode} and not {wanted}, since what forbids something may be missing."
            told.append(Notice("warning", text, "`claw config check` lists what is wrong."))
        return tuple(told)


@contextlib.contextmanager
def starting(arguments: Arguments, env: Mapping[str, str], version: str) -> Iterator[Startup]:
    """Read what a start depends on. The demo gets a scratch folder that is removed at the end.

    Raises:
        SetupError: no current directory, no home.
    """
    try:
        cwd = Path.cwd().resolve(strict=True)
        paths = Paths.from_env(env)
    except HomeError as error:
        raise SetupError(str(error)) from None
    except OSError as error:
        raise SetupError(f"The current directory cannot be used: {error.strerror}.\nChange to another one.") from None
    if arguments.command == "demo" or (arguments.model or "").startswith("scripted/"):
        with tempfile.TemporaryDirectory(prefix="claw-demo-") as scratch:
            yield _demo(arguments, env, paths, Path(scratch).resolve(), version)
        return
    project = project_root(cwd)
    loaded = load_config(
        paths,
        project,
        env,
        overrides(arguments),
        arguments.profile,
        trusted=is_trusted(project, paths, this_run=arguments.trust),
    )
    yield Startup(arguments, env, paths, cwd, project, loaded, provider_configs(loaded, env, paths), version)


def _demo(arguments: Arguments, env: Mapping[str, str], paths: Paths, scratch: Path, version: str) -> Startup:
    from agent.demo import create_demo_project

    project = create_demo_project(scratch / "project")
    config, data, state, cache = (scratch / name for name in ("config", "data", "state", "cache"))
    own = Paths(config, data, state, cache, home=paths.home, managed=paths.managed)
    loaded = load_config(own, project, {}, overrides(replace(arguments, config=())), None)
    # A demo may stand for nothing but itself: no key, no session and no rule of the user's is touched.
    # With `edits` the script's test runs are allowed too, so that it can finish where nobody is asked.
    allowed = ("bash(python3 -m unittest)",) if arguments.mode == "edits" else ()
    quiet = replace(
        arguments,
        model=DEMO_MODEL,
        continue_last=False,
        resume=None,
        no_instructions=False,
        add_dirs=(),
        allowed_tools=allowed,
        disallowed_tools=(),
    )
    providers = {"scripted": ProviderConfig("scripted", "scripted")}
    return Startup(quiet, {}, own, project, project, loaded, providers, version)


def overrides(arguments: Arguments) -> tuple[str, ...]:
    """What the command line sets of the configuration, so that each key's rule holds for it too."""
    limits = (("limits.max_cost", arguments.max_cost), ("limits.max_turns", arguments.max_turns))
    return (*arguments.config, *(f"{key}={value!r}" for key, value in limits if value is not None))


def reachable(config: ProviderConfig) -> bool:
    """Whether a request to this provider can work: it has a key, or needs none."""
    return config.key is not None or is_loopback(config.base_url) or config.api == "scripted"
