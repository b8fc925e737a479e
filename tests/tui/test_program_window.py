"""The window on the screen: it fills, is compacted by its trigger and by hand, and the gauge follows in both directions."""

from typing import Any

from tests.fakes.session_kit import Desk
from tests.tui.program import Program

SUMMARY = """\
## Goal
Talk.
## Constraints and preferences
None.
## Progress
### Done
Some.
### In progress
More.
### Blocked
Nothing.
## Key decisions
None.
## Next steps
Talk on.
## Critical context
MARMALADE"""
LONG = "blah word " * 500


def tokens(gauge: str) -> float:
    """A gauge's text as a number."""
    factor = {"k": 1e3, "M": 1e6}.get(gauge[-1], 1)
    return float(gauge.strip("≈kM")) * factor


class Talk:
    """A conversation in a small window; every answer is long and ends with its number."""

    def __init__(self, desk: Desk) -> None:
        self.wire = desk.wire
        self.answers = 0
        desk.wire.otherwise(self._answer)

    def _answer(self, body: Any) -> str:
        if self.wire.is_summary(body):
            return SUMMARY
        self.answers += 1
        return f"{LONG}ANSWER {self.answers}."

    @property
    def summaries(self) -> list[Any]:
        return [request.json for request in self.wire.requests if self.wire.is_summary(request.json)]

    def exchange(self, claw: Program) -> float:
        """Say something, wait for the answer; the gauge then, which a report has just made exact."""
        number = self.answers + 1
        claw.say(f"question {number}")
        claw.wait_for(f"ANSWER {number}.")
        claw.idle()
        gauge = claw.gauge()
        assert "≈" not in gauge
        return tokens(gauge)


def test_the_window_is_compacted_by_trigger_and_by_hand_and_each_is_undone(desk: Desk) -> None:
    talk = Talk(desk)
    with Program(desk, "-m", desk.model, columns=120, rows=100, CLAW_CONTEXT_WINDOW="14000") as claw:
        claw.ready()
        used = [talk.exchange(claw)]
        while not talk.summaries:
            used.append(talk.exchange(claw))
            assert len(used) < 12
        *rising, compacted = used
        assert rising == sorted(rising) and compacted < rising[-1] * 0.7
        assert "Compacted" in claw.text() and "· /undo compact" in claw.text()

        full = talk.exchange(claw)
        before = claw.gauge()
        claw.say("/compact keep the spoons")
        claw.wait_for(lambda text: before not in text.rpartition("\n")[2])
        claw.idle()
        assert len(talk.summaries) == 2
        assert "keep the spoons" in str(talk.summaries[1]) and "keep the spoons" not in str(talk.summaries[0])
        small = tokens(claw.gauge())
        assert small < full * 0.8

        claw.say("/context")
        shown = claw.wait_for("compaction at 9,744")
        assert "window 14,000" in shown and "summary" in shown
        claw.type("\x1b")
        claw.wait_for(lambda text: "compaction at 9,744" not in text)
        claw.say("/undo compact")
        claw.wait_for("The compaction is undone")
        assert small < tokens(claw.gauge()) <= full * 1.1

        assert talk.exchange(claw) > full
        bodies = [request.json for request in desk.wire.requests]
        assert "MARMALADE" in str(bodies[-1]) and str(bodies[-1]).count("MARMALADE") == 1
        claw.say("/undo compact")
        claw.wait_for(lambda text: text.count("The compaction is undone") == 2)
        claw.say("/undo compact")
        claw.wait_for("There is no compaction to undo.")
        claw.quit()
    assert desk.wire.refusals == []
