"""The main job, seen on the screen: a failing test is repaired over each wire API, every question answered by a key."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.fakes.model_server import ModelServer
from tests.fakes.session_kit import Desk, git, make_project
from tests.fakes.wires import AnthropicSide, ResponsesSide
from tests.tui.program import Program

OLD, NEW = 'return f"{a}{b}"', "return int(a) + int(b)"
FILES = {
    "calc.py": f"def add(a, b):\n    {OLD}\n",
    "test_calc.py": """\
import unittest

from calc import add


class AddTest(unittest.TestCase):
    def test_add(self):
        self.assertEqual(add(2, "3"), 5)
""",
}
RUN_TESTS = f"{sys.executable} -m unittest"
REQUEST = "make the test pass [b]x[/b] [/x] [@click=app.quit]q[/] 你好 👩‍👩‍👧"
FOREIGN = "[b]x[/b] [/x] [@click=app.quit]q[/]"


def passes(project: Path) -> bool:
    done = subprocess.run([sys.executable, "-m", "unittest"], cwd=project, capture_output=True, check=False)
    return done.returncode == 0


@pytest.mark.parametrize("side", [AnthropicSide, ResponsesSide])
def test_T60_a_failing_test_is_repaired_with_permission_asked_for_each_step(
    side: type[AnthropicSide | ResponsesSide], model_server: ModelServer, tmp_path: Path
) -> None:
    project = make_project(tmp_path / "project", FILES)
    git(project, "init", "-q", "-b", "repair")
    desk = Desk(side(model_server), project, tmp_path / "home")
    wire = desk.wire
    wire.reply("I read.", thinking="Hm.", tools=[("read", {"path": "calc.py"}), ("read", {"path": "test_calc.py"})])
    wire.reply("I run the tests.", tools=[("bash", {"command": RUN_TESTS})])
    wire.reply(f"I add. {FOREIGN}", tools=[("edit", {"path": "calc.py", "edits": [{"old": OLD, "new": NEW}]})])
    wire.reply("Again.", tools=[("bash", {"command": RUN_TESTS})])
    wire.reply("All tests pass.")
    assert not passes(project)

    with Program(desk, "-m", desk.model, columns=140, rows=40) as claw:
        claw.ready()
        claw.say(REQUEST)
        asked = claw.answer("y", "Yes, once")
        assert "bash wants to run this command" in asked and f"  {RUN_TESTS} " in asked
        assert f"▌ make the test pass {FOREIGN} 你好" in asked
        assert "👩‍👩‍👧" in claw.raw.decode()  # the emulated screen shows no joiners
        started = claw.gauge()

        shown = claw.wait_for("edit wants to change calc.py")
        assert f"-    {OLD}" in shown and f"+    {NEW}" in shown
        assert (project / "calc.py").read_text() == FILES["calc.py"]
        claw.answer("a", "Always in this folder")
        claw.answer("y", "bash wants to run this command")
        claw.wait_for("All tests pass.")
        end = claw.idle()
        assert "· exit 1 ·" in end and "FAILED (failures=1)" in end
        assert f"I add. {FOREIGN}" in end and "edit calc.py · +1 −1" in end
        assert "≈" not in claw.gauge() and claw.gauge() != started.lstrip("≈")
        assert "$0.0" in claw.foot() and "  repair  " in claw.foot()
        claw.quit()

    assert passes(project)
    assert wire.refusals == [] and len(wire.requests) == 5
    assert REQUEST in wire.texts(desk.bodies()[-1])
    granted = tomllib.loads((desk.home / "state" / "state.toml").read_text())
    assert granted == {"grants": {str(project): {"allow": ["edit(*)"]}}}
    assert sorted(path.name for path in project.iterdir() if path.name != "__pycache__") == [".git", *sorted(FILES)]
