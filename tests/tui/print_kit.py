"""Print mode within the test's process, against a desk's server: what `claw -p` does once its session is open."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest

from agent.events import Event
from tests.fakes.session_kit import Desk
from tui.headless.collector import Collector
from tui.headless.output_schema import AnswerSchema
from tui.launch.wiring import Opener
from tui.print_mode import PrintRun, Stopper


class Printed(NamedTuple):
    code: int
    result: Any
    """The object of `--output-format json`."""
    err: str
    events: list[Event]


class Listed:
    """Messages that are known beforehand."""

    def __init__(self, messages: Sequence[str]) -> None:
        self._messages = list(messages)

    async def next(self) -> str | None:
        return self._messages.pop(0) if self._messages else None

    def stop(self) -> None:
        self._messages.clear()


async def answer(
    desk: Desk, capsys: pytest.CaptureFixture[str], *messages: str, schema: AnswerSchema | None = None, **arguments: Any
) -> Printed:
    """Have the messages answered, one after another."""
    collector, stopper, events = Collector(lambda text: None), Stopper(), list[Event]()

    def emit(event: Event) -> None:
        events.append(event)
        collector.emit(event)
        stopper.emit(event)

    session = Opener(desk.startup(**arguments)).open(emit, None)
    stopper.session = session
    code = await PrintRun(session, collector, stopper, Listed(messages), schema).run("json")
    captured = capsys.readouterr()
    return Printed(code, json.loads(captured.out), captured.err, events)
