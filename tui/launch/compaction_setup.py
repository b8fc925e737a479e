"""What the compactions of a session are given from configuration and command line."""

from collections.abc import Callable
from pathlib import Path

from agent.events import Emit, Notice
from agent.hooks import CompactionHooks
from agent.model_in_force import Model
from agent.permissions.workspace import Workspace
from agent.processes import Spawner
from agent.summary_writer import CompactionSetup
from tui.launch.model_choice import Models
from tui.launch.startup import SetupError, Startup


def compaction_setup(
    startup: Startup,
    models: Models,
    spawner: Spawner,
    workspace: Workspace,
    emit: Emit,
    without_secrets: Callable[[str], str] = str,
) -> CompactionSetup:
    """Hooks, the model for summaries, who accepts a cost. Whom to ask is said later, by who can ask."""
    config = startup.loaded.config

    def is_closed(path: Path) -> bool:
        return workspace.is_closed is not None and workspace.is_closed(path)

    before, after = config.hooks.pre_compact, config.hooks.post_compact
    hooks = CompactionHooks(spawner, startup.cwd, emit, before, after, without_secrets=without_secrets)
    return CompactionSetup(
        background=config.context.background,
        hooks=hooks if config.hooks.pre_compact or config.hooks.post_compact else None,
        is_closed=is_closed,
        accepts_cost=startup.arguments.yes,
        summary_model=_summary_model(config.context.summary_model, models, emit),
    )


def _summary_model(name: str | None, models: Models, emit: Emit) -> Callable[[], Model | None]:
    told: list[str] = []

    def choose() -> Model | None:
        if name is None:
            return None
        try:
            return models.choose(name)
        except SetupError as error:
            text = f"Summaries are written by the model in use, because context.summary_model cannot be used: {error}"
            if text not in told:
                told.append(text)
                emit(Notice("warning", text))
            return None

    return choose
