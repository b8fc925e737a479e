"""What the model is told of the mode: at first, then every five turns, and once at its end."""

import pytest

from agent.mode_facts import KIND, mode_facts
from agent.prompt import load_prompt
from agent.transcript import Payload, Reminder, Setting, Transcript, User
from providers.types import TextBlock

PLAN, OVER = load_prompt("mode_plan"), load_prompt("mode_plan_over")


class Talk:
    """Turns as a session begins them, without what the model says."""

    def __init__(self) -> None:
        self.transcript = Transcript()
        self.told: list[tuple[int, Reminder]] = []

    def add(self, *payloads: Payload) -> None:
        for payload in payloads:
            entry = self.transcript.append(payload, 0)
            if isinstance(payload, Reminder):
                self.told.append((entry.key, payload))

    def turn(self, mode: str) -> str:
        facts = mode_facts(mode, self.told, self.transcript.branch)
        self.add(User((TextBlock("x"),)), *facts, User((TextBlock("go on"),), synthetic=True))
        assert all(fact.kind == KIND for fact in facts) and len(facts) <= 1
        return facts[0].text if facts else ""


def test_K16b_plan_mode_is_told_at_first_and_again_only_after_five_turns() -> None:
    talk = Talk()
    assert [talk.turn("plan") for _ in range(11)] == [PLAN, "", "", "", "", PLAN, "", "", "", "", PLAN]


def test_K16b_the_end_of_plan_mode_is_told_once_and_its_return_at_once() -> None:
    talk = Talk()
    modes = ["ask", "plan", "plan", "edits", "ask", "plan", "ask"]
    assert [talk.turn(mode) for mode in modes] == ["", PLAN, "", OVER, "", PLAN, OVER]


def test_K16b_what_left_the_window_is_told_again() -> None:
    talk = Talk()
    assert talk.turn("plan") == PLAN
    talk.told.clear()
    assert talk.turn("plan") == PLAN
    talk.told.clear()
    assert talk.turn("ask") == ""


@pytest.mark.parametrize("mode", ["ask", "edits", "auto", ""])
def test_other_modes_are_not_talked_about(mode: str) -> None:
    talk = Talk()
    talk.add(Setting(mode=mode), Reminder("date", "Today."))
    assert [talk.turn(mode) for _ in range(7)] == [""] * 7
