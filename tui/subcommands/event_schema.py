"""The JSON Schema of `--output-format stream-json`, made from the events' own types.

`docs/events.schema.json` is what `python -m tui.subcommands.event_schema` writes.
"""

import functools
import operator
import sys
from typing import Any

import msgspec

from agent import events
from agent.events import Event
from tui.headless.stream_json import InputError, Result

_DESCRIPTION = (
    "One line of `claw -p PROMPT --output-format stream-json`. Its `type` says which event it is; `result` comes once and last. "
    "New types and new fields may come with a new version; what is there keeps its meaning."
)


def event_types() -> tuple[type[Event], ...]:
    """Every event that a line may be, as they stand in agent/events.py, then those of the stream itself."""
    own = [kind for kind in vars(events).values() if isinstance(kind, type) and issubclass(kind, Event)]
    return (*(kind for kind in own if kind is not Event), InputError, Result)


def line_type() -> Any:
    """The union of them, as msgspec decodes a line."""
    return functools.reduce(operator.or_, event_types())


def event_schema() -> dict[str, Any]:
    (line,), parts = msgspec.json.schema_components([line_type()], ref_template="#/$defs/{name}")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "claw events",
        "description": _DESCRIPTION,
        **line,
        "$defs": parts,
    }


def schema_text() -> str:
    """The schema as its file holds it."""
    return msgspec.json.format(msgspec.json.encode(event_schema()), indent=2).decode() + "\n"


if __name__ == "__main__":
    sys.stdout.write(schema_text())
