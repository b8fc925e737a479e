"""The scripted model of the demo: repairs the sum of the demo project through the real tools, and says that it is scripted.

Any prompt plays the repair. Each reply follows from what the tools really answered (demo_story.py), so that a refused
permission, an interruption or a compaction leads to a fitting next step.
"""

import os
import secrets
from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any

from providers.base import ModelRequest
from providers.demo_files import EXTRA_TESTS, PAGE, extra_tests, page
from providers.demo_story import (
    FIRST_FIX,
    HISTORY,
    ORIGINAL,
    SECOND_FIX,
    SOURCE,
    TESTS,
    Story,
    read_story,
    read_transcript,
    texts,
    wants_summary,
)
from providers.scripted import Call, Count, Item, Say, ScriptedProvider
from providers.types import ProviderConfig, UserMessage

CHARS_PER_S = 400.0
SPEED_VARIABLE = "CLAW_DEMO_CHARS_PER_S"
"""Environment variable that sets the speed of the demo's text; 0: all at once."""
TEST_COMMAND = "python3 -m unittest"
MARK = "[scripted] "
_SLICE_LINES = 40
_MAX_SLICES = 11

_INTRO = """This is a scripted demonstration: no model thinks here and no network is used. Everything else is real, the \
tools, the permissions, the gauge and the compaction, and so are the files of this little scratch project.

`calc.sum(2, 3)` gives 23 instead of 5. I read the function and its tests first; AGENTS.md says that the public interface \
has to stay."""
_AGAIN = "The repair is not finished, so the script goes on with it. I look at the files as they are now."
_OVER = f"""The demo is over: the sum is repaired and its tests pass. I am a script and cannot do anything else.

To work with a model on your own code, set `ANTHROPIC_API_KEY` or `OPENAI_API_KEY`, or a local server in `config.toml`, and \
start `claw` in your project. Until then you may look around: the files lie in this folder, `{SOURCE}` among them, \
`/context` shows what fills the window, and `/compact` works too."""
_STEERED = "I have read your message; a script cannot follow it, so it goes on as written. "
_RUN_FIRST = "Both values become text, and `+` joins text. Before I change anything I run the tests."
_RUN_AGAIN = "Now the tests again."
_FIRST = """As expected, the values are joined and not added. They have to become numbers: I take the digits out of what \
arrives."""
_LOOK_BACK = """`sum(2, 3)` is right now, but the negative case fails: taking the digits alone loses the sign. Before I \
settle what counts as a number I look into the project's history."""
_FIRST_BLIND = """The tests may not be run, so I go by reading: both values become text, and `+` joins text. I take the \
digits out of what arrives."""
_LOOK_BACK_BLIND = """That should make `sum(2, 3)` right, but the tests have a negative case, and the digits alone lose the \
sign. Before I settle what counts as a number I look into the project's history."""
_SLICES = (
    "Nothing about signs in the newest releases. I read on.",
    "I read on: does anything older take back what 0.84 says about signs?",
)
_MORE = "Nothing in these releases changes what a number is. I go a little further back."
_EXTRA = """Here it is, in 0.84: text may carry a sign, and that is meant to stay. Before the fix I write the rule down as \
tests of its own, so that it cannot get lost again."""
_PAGE = "What a number is belongs into the docs as well; I write that page before I go on."
_SECOND = "`int` reads a sign and ignores blanks around it, so the whole text goes to it. The interface stays as it is."
_UNVERIFIED = f"I was not allowed to run the tests, so nothing is verified; `{TEST_COMMAND}` does it."
_THINK_FIRST = "23 looks like text being joined. The function and its tests will tell; they can be read side by side."
_THINK_SECOND = "The digits alone lose the sign. int() takes a sign and blanks, so no parsing of my own is needed."


class DemoScript:
    """request → the items of the reply. Holds nothing but its pace."""

    def __init__(self, chars_per_s: float = CHARS_PER_S) -> None:
        self._chars_per_s = chars_per_s
        self._run = secrets.token_hex(3)
        self._numbers = count(1)

    def __call__(self, request: ModelRequest) -> Iterable[Item]:
        if wants_summary(request):
            return [Say(summary(_told(request)), self._chars_per_s)]
        return self._reply(read_story(request.messages))

    def _reply(self, story: Story) -> Iterable[Item]:
        lead = _STEERED if story.steered else ""
        if not story.steps:
            return self._begin(story)
        if story.stopped_by:
            return self._say(f"{lead}That did not work: {story.stopped_by}\n\n{_farewell(story)}")
        if story.source is None:
            return [*self._say(lead + _AGAIN), *self._read_both()]
        if story.tests is None:
            text = _RUN_FIRST if story.source == "original" else _RUN_AGAIN
            return [*self._say(lead + text), self._call("bash", command=TEST_COMMAND)]
        blind = story.tests == "refused"
        match story.source:
            case "original" if story.tests != "passed":
                return [*self._say(lead + (_FIRST_BLIND if blind else _FIRST)), self._edit(ORIGINAL, FIRST_FIX)]
            case "first fix" if story.tests != "passed":
                return self._second(story, lead)
            case _:
                return self._say(lead + _closing(story))

    def _begin(self, story: Story) -> Iterable[Item]:
        if story.source == "second fix" and story.tests == "passed":
            return self._say(_OVER)
        if story.turns > 1 or story.compacted:
            return [*self._say(_AGAIN), *self._read_both()]
        return [self._think(_THINK_FIRST), *self._say(_INTRO), *self._read_both()]

    def _second(self, story: Story, lead: str) -> Iterable[Item]:
        """Look back until the window was compacted or the history ends, with two files on the way, then the fix."""
        if story.compacted or story.slices >= _MAX_SLICES:
            return [self._think(_THINK_SECOND), *self._say(lead + _SECOND), self._edit(FIRST_FIX, SECOND_FIX)]
        if story.slices >= len(_SLICES) and story.extra_tests is None:
            return [*self._say(lead + _EXTRA), self._call("write", path=EXTRA_TESTS, content=extra_tests())]
        if story.slices >= len(_SLICES) and story.page is None:
            return [*self._say(lead + _PAGE), self._call("write", path=PAGE, content=page())]
        comments = (_LOOK_BACK_BLIND if story.tests == "refused" else _LOOK_BACK, *_SLICES)
        text = comments[story.slices] if story.slices < len(comments) else _MORE
        return [*self._say(lead + text), self._slice(story.slices)]

    # ------------------------------------------------------------------ items

    def _say(self, text: str) -> list[Item]:
        return [Say(MARK + text, self._chars_per_s)]

    def _think(self, text: str) -> Item:
        return Say(text, self._chars_per_s, thinking=True)

    def _call(self, name: str, **arguments: Any) -> Item:
        return Call(f"demo_{self._run}_{next(self._numbers)}", name, arguments)

    def _read_both(self) -> list[Item]:
        return [self._call("read", path=SOURCE), self._call("read", path=TESTS)]

    def _slice(self, number: int) -> Item:
        return self._call("read", path=HISTORY, offset=1 + number * _SLICE_LINES, limit=_SLICE_LINES)

    def _edit(self, old: str, new: str) -> Item:
        return self._call("edit", path=SOURCE, edits=[{"old": old, "new": new}])


def demo_provider(
    config: ProviderConfig, counter: Count | None = None, env: Mapping[str, str] | None = None
) -> ScriptedProvider:
    """The provider of `scripted/demo`. `counter` counts tokens of a text; an estimate stands in for it."""
    return ScriptedProvider(config, DemoScript(_speed(os.environ if env is None else env)), count=counter, record=0)


def summary(story: Story) -> str:
    """A summary with all the sections that a compaction asks for, as far as the story has come."""
    done, step, following = (
        ["Read the function and its tests."],
        "Run the tests.",
        "Repair the sum, then run the tests.",
    )
    if story.source in ("first fix", "second fix"):
        done.append("First fix: the values are turned into numbers by their digits, so `sum(2, 3)` is 5.")
        step, following = "Keep the sign of negative numbers.", f"Edit `_number` in `{SOURCE}`, then `{TEST_COMMAND}`."
    if story.extra_tests == "written":
        done.append(f"Wrote `{EXTRA_TESTS}`, which states the rule about signs.")
    if story.source == "second fix":
        done.append("Second fix: `int` reads the whole text, so that a sign survives.")
        step, following = "(none)", "(none)" if story.tests == "passed" else f"Run `{TEST_COMMAND}`."
    blocked = "The tests may not be run here." if story.tests == "refused" else "(none)"
    return f"""\
## Goal
Repair `calc.sum` in the demo project: `sum(2, 3)` gave 23 instead of 5. (A scripted summary: no model wrote it.)

## Constraints and preferences
- The public interface `sum(a, b)` stays as it is; standard library only.

## Progress
### Done
{chr(10).join(f"- {line}" for line in done)}
### In progress
{step}
### Blocked
{blocked}

## Key decisions
- Text that carries a sign is a number: `docs/history.md`, release 0.84.

## Next steps
{following}

## Critical context
{story.state_line()}"""


def _told(request: ModelRequest) -> Story:
    """What a request for a summary knows: its messages, or the transcript rendered into one."""
    if request.tools or request.extra:
        return read_story(request.messages)
    blocks = [block for message in request.messages if isinstance(message, UserMessage) for block in message.blocks]
    return read_transcript(texts(blocks))


def _closing(story: Story) -> str:
    if story.tests == "failed":
        return f"The tests still fail, and `{SOURCE}` is not what this script expects. It ends here."
    if story.source == "original":
        return "The tests pass already, so there is nothing to repair. The script ends here."
    verdict = "All tests pass, the negative case too." if story.tests == "passed" else _UNVERIFIED
    written = (
        f"\n- The rule about signs has tests of its own in `{EXTRA_TESTS}`." if story.extra_tests == "written" else ""
    )
    return (
        f"Done. {verdict}\n\n- `{SOURCE}`: both values are turned into numbers by `int`, so `sum(2, 3)` gives 5 and a sign "
        f"survives.\n- `sum(a, b)` kept its name and parameters.{written}\n\nThat was the script; no model was involved."
    )


def _farewell(story: Story) -> str:
    changed = "" if story.source in (None, "original") else " What was changed so far stays changed."
    return f"So I stop here.{changed} Send any message to play the script again."


def _speed(env: Mapping[str, str]) -> float:
    try:
        return max(0.0, float(env.get(SPEED_VARIABLE, CHARS_PER_S)))
    except ValueError:
        return CHARS_PER_S
