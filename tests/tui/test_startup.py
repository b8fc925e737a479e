"""What a start makes of the configuration that it finds."""

import pytest

from tests.fakes.session_kit import Desk, make_project
from tui.launch.arguments import Arguments
from tui.launch.startup import starting

BROKEN = {".claw/config.toml": "[broken\n"}


@pytest.mark.parametrize(
    ("files", "mode", "in_force", "told"),
    [
        (BROKEN, "auto", "ask", ("holds", "The mode is ask and not auto", "claw config check")),
        (BROKEN, "plan", "plan", ("holds", "claw config check")),
        ({".claw/config.toml": "[tui]\nthem = 'x'\n"}, "auto", "auto", ("holds", "claw config check")),
        ({}, "auto", "auto", ()),
    ],
)
def test_B30_where_a_part_of_the_configuration_is_wrong_a_start_says_what_holds(
    desk: Desk,
    monkeypatch: pytest.MonkeyPatch,
    files: dict[str, str],
    mode: str,
    in_force: str,
    told: tuple[str, ...],
) -> None:
    monkeypatch.chdir(make_project(desk.project, files))
    with starting(Arguments(mode=mode), desk.env, "test") as startup:
        assert startup.mode == in_force
        assert len(startup.notices) == (2 if files else 0)
        last = f"{startup.notices[-1].text} {startup.notices[-1].remedy}" if files else ""
    assert all(words in last for words in told) and ("The mode is" in last) == (mode != in_force)
