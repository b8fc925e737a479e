"""What a new session takes over from the one before it, and what is said of it."""

import contextlib

import msgspec

from agent.events import Event, Notice
from providers.types import Effort
from tui.bridge import Mode, SessionControls, Target


def go_on_as(old: SessionControls, fresh: SessionControls) -> None:
    """A new session keeps the model and the mode that were chosen, where it can."""
    with contextlib.suppress(Exception):
        if (name := f"{old.provider_name}/{old.model}") != f"{fresh.provider_name}/{fresh.model}":
            fresh.set_model(name)
        if old.effort is not None and old.effort != fresh.effort:
            fresh.set_effort(msgspec.convert(old.effort, Effort))
        if old.mode != fresh.mode:
            fresh.set_mode(msgspec.convert(old.mode, Mode))


def told_of_copy(target: Target, session: SessionControls) -> list[Event]:
    """That this is a copy, which looks like its original."""
    if target.kind != "fork":
        return []
    return [Notice("info", f"A copy: session {session.id}. {target.session_id} stays as it is; /resume opens it.")]
