"""How far the demo's repair has come, read from a request alone, so that it survives compaction, resume and interruption.

What the tools really answered decides; after a compaction the scripted summary's own sentences stand in for what is gone.
"""

import re
from collections.abc import Sequence
from typing import Literal

import msgspec

from providers.base import ModelRequest
from providers.demo_files import EXTRA_TESTS, PAGE
from providers.types import (
    AssistantMessage,
    Message,
    TextBlock,
    ToolCall,
    ToolResultMessage,
    UserBlock,
    UserMessage,
)

SOURCE = "calc/core.py"
TESTS = "tests/test_core.py"
HISTORY = "docs/history.md"
ORIGINAL = "    return str(value).strip()"
FIRST_FIX = '    return int("".join(character for character in str(value) if character.isdigit()))'
SECOND_FIX = "    return int(str(value).strip())"

SourceState = Literal["original", "first fix", "second fix", "other"]
Outcome = Literal["passed", "failed", "refused"]
Written = Literal["written", "refused"]

_MARKS: dict[SourceState, str] = {"original": ORIGINAL, "first fix": FIRST_FIX, "second fix": SECOND_FIX}
_OUTCOMES: tuple[Outcome, ...] = ("passed", "failed", "refused")
_WRITTEN: tuple[Written, ...] = ("written", "refused")
_ALL_SLICES = 1_000
_NO_RESULT = "[No result:"
_CLEARED = "[Old tool result"
_UNCHANGED = "[Unchanged since you read it"
_EXIT = re.compile(r"exit code (\d+)")
_SUMMED_UP = re.compile(
    r"`calc/core\.py` holds the (?P<source>original|first fix|second fix|other)\. "
    r"Newest test run: (?P<tests>passed|failed|refused|none)\. Extra tests: (?P<extra>written|refused|none)\."
)


class Story:
    """What is known at one request. Read its attributes; `read_story` makes it."""

    def __init__(self) -> None:
        self.source: SourceState | None = None
        """What the source holds; None if it has to be read (again)."""
        self.shown: SourceState | None = None
        """What the newest reading showed, which a later one may only refer to."""
        self.tests: Outcome | None = None
        """How the tests ended after the newest change; None if they did not run since."""
        self.extra_tests: Written | None = None
        """Whether the tests about signs were written; None if that was not tried."""
        self.page: Written | None = None
        """The same of the page about numbers."""
        self.slices = 0
        """How many pieces of the history were read."""
        self.compacted = False
        """The window begins with a summary of this script."""
        self.steps = 0
        """Answered calls since the prompt that is being worked on."""
        self.turns = 0
        self.steered = False
        """The newest message came from the user while the work went on."""
        self.stopped_by = ""
        """First line of the result of a read or an edit that did not work, in this turn."""

    def state_line(self) -> str:
        """The sentence of a summary that `read_story` understands."""
        return (
            f"`{SOURCE}` holds the {self.source or 'original'}. Newest test run: {self.tests or 'none'}. "
            f"Extra tests: {self.extra_tests or 'none'}."
        )

    def recall(self, text: str) -> bool:
        """Take over what a summary of this script says; False if there is none in the text."""
        found = list(_SUMMED_UP.finditer(text))
        if not found:
            return False
        last = found[-1]
        self.source = next((s for s in (*_MARKS, "other") if s == last["source"]), None)
        self.tests = next((t for t in _OUTCOMES if t == last["tests"]), None)
        self.extra_tests = next((w for w in _WRITTEN if w == last["extra"]), None)
        return True


def read_story(messages: Sequence[Message]) -> Story:
    """The state after these messages."""
    story = Story()
    calls: dict[str, ToolCall] = {}
    working = False
    for message in messages:
        match message:
            case UserMessage():
                text = texts(message.blocks)
                if story.recall(text):
                    story.compacted, story.steps, working = True, 1, True
                    continue
                story.steered = working
                if not working:
                    story.turns += 1
                    story.steps, story.stopped_by = 0, ""
                    story.tests = None if story.tests == "refused" else story.tests
                    story.extra_tests = None if story.extra_tests == "refused" else story.extra_tests
                    story.page = None if story.page == "refused" else story.page
                    working = True
            case AssistantMessage():
                made = {block.id: block for block in message.blocks if isinstance(block, ToolCall)}
                calls.update(made)
                working, story.steered = bool(made), False
            case ToolResultMessage():
                if (call := calls.get(message.call_id)) is not None:
                    _learn(story, call, message)
    return story


def read_transcript(text: str) -> Story:
    """The state as a rendered transcript shows it, roughly: what stands last in it counts."""
    story = Story()
    story.recall(text)
    places: list[tuple[int, SourceState]] = [(text.rfind(mark.strip()), state) for state, mark in _MARKS.items()]
    # A call's arguments are JSON, in which quotes are escaped.
    places.append((text.rfind("if character.isdigit()"), "first fix"))
    at, state = max(places)
    if at >= 0:
        story.source = state
    failed, passed = text.rfind("FAILED ("), text.rfind("\nOK")
    if max(failed, passed) >= 0:
        story.tests = "failed" if failed > passed else "passed"
    if EXTRA_TESTS in text:
        story.extra_tests = "written"
    return story


def wants_summary(request: ModelRequest) -> bool:
    """Whether this is the request for a compaction's summary, in either form."""
    asked = texts(_last_user(request)).lower()
    return "critical context" in asked and (bool(request.extra) or not request.tools or "summary" in asked)


def texts(blocks: Sequence[UserBlock]) -> str:
    return "\n".join(block.text for block in blocks if isinstance(block, TextBlock))


def _last_user(request: ModelRequest) -> Sequence[UserBlock]:
    last = request.extra[-1] if request.extra else request.messages[-1] if request.messages else None
    return last.blocks if isinstance(last, UserMessage) else ()


def _learn(story: Story, call: ToolCall, result: ToolResultMessage) -> None:
    text = texts(result.blocks)
    path, command = _arguments(call)
    story.steps += 1
    if text.startswith(_NO_RESULT):
        if call.name in ("edit", "write") and path == SOURCE:
            story.source, story.tests = None, None
        return
    if call.name == "bash" and "unittest" in command:
        story.tests = _tests_outcome(text, result.is_error)
    elif call.name == "write" and path == EXTRA_TESTS:
        story.extra_tests = "refused" if result.is_error else "written"
        if not result.is_error:
            story.tests = "refused" if story.tests == "refused" else None
    elif call.name == "write" and path == PAGE:
        story.page = "refused" if result.is_error else "written"
    elif result.is_error and call.name in ("read", "edit") and path in (SOURCE, TESTS):
        story.stopped_by = text.strip().split("\n", 1)[0]
        story.source = None if call.name == "read" else story.source
    elif call.name == "edit" and path == SOURCE:
        story.source = "second fix" if SECOND_FIX.strip() in call.arguments.rpartition('"new"')[2] else "first fix"
        story.tests = "refused" if story.tests == "refused" else None
    elif call.name == "read" and path == SOURCE and text.startswith(_UNCHANGED):
        story.source = story.source or story.shown or "other"
    elif call.name == "read" and path == SOURCE and not text.startswith(_CLEARED):
        story.source = next((state for state, mark in _MARKS.items() if mark.strip() in text), "other")
        story.shown = story.source
    elif call.name == "read" and path == HISTORY:
        story.slices += _ALL_SLICES if result.is_error else 1


def _tests_outcome(text: str, is_error: bool) -> Outcome:
    if text.startswith(_CLEARED):
        return "failed" if is_error else "passed"
    if match := _EXIT.search(text):
        return "passed" if match[1] == "0" else "failed"
    return "refused" if is_error else "passed"


def _arguments(call: ToolCall) -> tuple[str, str]:
    """(path, command); "" for what the call does not have."""
    try:
        value = msgspec.json.decode(call.arguments, type=dict[str, object])
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return "", ""
    return str(value.get("path", "")), str(value.get("command", ""))
