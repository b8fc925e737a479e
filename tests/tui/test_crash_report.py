"""What is left of a mistake in claw: a short text, a private report, and no secret in either."""

import os
import stat
import sys
import threading
from pathlib import Path

import pytest

from tests.fakes.secret_keys import made_keys, made_pem
from tests.fakes.terminal import Terminal
from tui.crash import crash_text, reports_of_threads

KEYS = made_keys(9)


class Home:
    def __init__(self, folder: Path) -> None:
        self.logs = folder / "state" / "logs"

    @property
    def reports(self) -> list[Path]:
        return sorted(self.logs.glob("crash-*.txt"))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("CLAW_HOME", str(tmp_path))
    monkeypatch.setenv("MY_SERVICE_TOKEN", "opaque-9-value")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "auth.json").write_text('{"x": {"key": "from-the-file-77"}}')
    return Home(tmp_path)


def failed(text: str) -> BaseException:
    try:
        try:
            raise ValueError({"headers": {"authorization": f"Bearer {KEYS['OpenAI']}"}})
        except ValueError as error:
            local = KEYS["Slack"]
            raise RuntimeError(f"{text} {local[:4]}") from error
    except RuntimeError as error:
        return error


def test_T102_a_crash_is_told_in_short_and_its_report_holds_no_secret(home: Home) -> None:
    text = f"opaque-9-value from-the-file-77 {KEYS['Anthropic']}\n{made_pem(2)}"
    umask = os.umask(0)
    try:
        told = crash_text(failed(text))
    finally:
        os.umask(umask)
    (report,) = home.reports
    written = report.read_text()
    assert (
        str(report) in told
        and "claw -c" in told
        and "Traceback" not in told
        and told.startswith("claw: RuntimeError: ")
    )
    assert written.startswith("claw ") and "Traceback" in written and "test_crash_report.py" in written
    for secret in (
        "opaque-9-value",
        "from-the-file-77",
        KEYS["Anthropic"],
        KEYS["OpenAI"],
        KEYS["Slack"],
        made_pem(2)[60:90],
    ):
        assert secret not in told + written
    assert stat.S_IMODE(report.stat().st_mode) == 0o600 and stat.S_IMODE(home.logs.stat().st_mode) == 0o700


def test_only_the_newest_reports_are_kept(home: Home) -> None:
    for number in range(13):
        crash_text(failed(f"number {number}"))
    assert len(home.reports) == 10 and any("number 12" in path.read_text() for path in home.reports)


def test_without_a_place_for_it_the_traceback_is_shown(home: Home, tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    told = crash_text(failed(f"and {KEYS['GitHub']}"))
    assert "Traceback" in told and "and [redacted " in told and KEYS["GitHub"] not in told


def test_what_fails_in_a_thread_is_written_down_and_shown_nowhere(
    home: Home, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise LookupError(f"in a thread {KEYS['GitHub']}")

    before = threading.excepthook
    with reports_of_threads():
        thread = threading.Thread(target=fail)
        thread.start()
        thread.join()
    assert threading.excepthook is before
    (report,) = home.reports
    assert "LookupError: in a thread [redacted 1]" in report.read_text() and capfd.readouterr() == ("", "")


CRASHING = """
import sys
from tests.tui.fake_session import Opener, launch
from tui.launch.run import run_app

class Failing(Opener):
    async def __call__(self, target, emit, approver):
        session = await super().__call__(target, emit, approver)

        def fail(text):
            local_secret = sys.argv[1]
            raise RuntimeError("no way with " + local_secret)

        session.secrets_in = fail
        return session

sys.exit(run_app(launch(Failing())))
"""


@pytest.mark.slow
def test_T102_a_crash_of_the_screen_shows_no_values_and_leaves_a_report(home: Home) -> None:
    root = Path(__file__).parents[2]
    env = {"PATH": os.environ["PATH"], "CLAW_HOME": str(home.logs.parents[1]), "PYTHONPATH": str(root)}
    with Terminal([sys.executable, "-c", CRASHING, KEYS["GitHub"]], cwd=root, env=env) as terminal:
        terminal.wait_for("Ask for something")
        terminal.drain(0.5, 3)
        terminal.type("hello\r")
        assert terminal.wait_end(20) == 1
        raw = terminal.raw.decode()
    assert "RuntimeError: no way with [redacted 1]" in raw and "Traceback" not in raw and "local_secret" not in raw
    (report,) = home.reports
    assert report.name in raw.replace("\r\n", "") and KEYS["GitHub"] not in raw + report.read_text()
    assert "RuntimeError: no way with [redacted 1]" in report.read_text()
