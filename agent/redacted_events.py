"""Takes secrets out of what a session tells while it works: live output, titles, errors, notices.

What the model says and what the user typed is passed on as it is. The output of a command comes in pieces and is looked at as
one text; what is kept back of it comes with the next piece, or with the result.
"""

from msgspec.structs import replace

from agent.events import (
    CompactionFinished,
    Emit,
    Event,
    Notice,
    RecordingChanged,
    RetryScheduled,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnEnded,
)
from agent.redaction_stream import RedactionStream
from agent.session_secrets import SessionSecrets


class RedactedEvents:
    """An `emit` in front of another one."""

    def __init__(self, secrets: SessionSecrets, emit: Emit) -> None:
        self._secrets = secrets
        self._emit = emit
        self._live: dict[str, RedactionStream] = {}
        """The output of each call that runs."""

    def __call__(self, event: Event) -> None:
        clean = self._secrets.text
        match event:
            case ToolProgress(call_id=call_id, text=text):
                stream = self._live.setdefault(call_id, self._secrets.stream())
                if not (given := stream.feed(text)):
                    return
                event = ToolProgress(call_id, given)
            case ToolStarted(title=title):
                event = _with(event, title=clean(title))
            case ToolFinished(call_id=call_id):
                self._live.pop(call_id, None)
            case Notice(text=text, remedy=remedy):
                event = _with(event, text=clean(text), remedy=clean(remedy))
            case RecordingChanged(fault=fault, remedy=remedy):
                event = _with(event, fault=clean(fault), remedy=clean(remedy))
            case RetryScheduled(reason=reason):
                event = _with(event, reason=clean(reason))
            case TurnEnded(error=error) if error:
                event = _with(event, error=clean(error))
            case CompactionFinished(message=message) if message:
                event = _with(event, message=clean(message))
        self._emit(event)


def _with(event: Event, **texts: str) -> Event:
    """The same event where nothing was found, which is nearly always."""
    return event if all(getattr(event, name) == text for name, text in texts.items()) else replace(event, **texts)
