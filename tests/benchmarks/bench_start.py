"""Start: first frame against a bare Textual app, `--version` against bare Python, keys typed meanwhile, idle cost, memory."""

import subprocess
import tempfile
import time
from pathlib import Path

from tests.benchmarks.kit import PYTHON, clean_env, compile_all, show
from tests.fakes.model_server import ModelServer, json_reply
from tests.fakes.terminal import Terminal

BARE = """
from textual.app import App
from textual.widgets import Static, TextArea

class Bare(App):
    def compose(self):
        yield Static("bare-frame-is-here")
        yield TextArea()

Bare().run()
"""


def main() -> bool:
    compile_all()
    with tempfile.TemporaryDirectory() as scratch, ModelServer() as server:
        home, project = Path(scratch) / "home", Path(scratch) / "project"
        home.mkdir()
        project.mkdir()
        server.always("/v1/models", json_reply({"data": [], "has_more": False}))
        env = clean_env(home, ANTHROPIC_API_KEY="key", ANTHROPIC_BASE_URL=server.url)
        good = [_version(env, project), _first_frame(env, project), _keys(env, project), _idle(env, project)]
    return all(good)


def _version(env: dict[str, str], project: Path) -> bool:
    def run(*argv: str) -> float:
        started = time.perf_counter()
        subprocess.run(argv, env=env, cwd=project, check=True, stdout=subprocess.DEVNULL)
        return time.perf_counter() - started

    claw = str(Path(PYTHON).with_name("claw"))
    pairs = [(run(claw, "--version"), run(PYTHON, "-c", "pass")) for _ in range(20)]
    ours, bare = sorted(a for a, _ in pairs)[10], sorted(b for _, b in pairs)[10]
    show("claw --version", ours * 1000, "ms", note=f"python3 -c pass {bare * 1000:.1f} ms")
    return show("  ratio", ours / bare, "x", 2.5)


def _first_frame(env: dict[str, str], project: Path) -> bool:
    def until(argv: list[str], wanted: bytes) -> float:
        with Terminal(argv, cwd=project, env=env) as terminal:
            started = time.perf_counter()
            while wanted not in terminal.raw:
                if not terminal.read(10):
                    raise AssertionError(f"ended before the first frame: {terminal.text()}")
            return time.perf_counter() - started

    bare_file = project / "bare_app.py"
    bare_file.write_text(BARE)
    claw = [str(Path(PYTHON).with_name("claw"))]
    pairs = [(until(claw, b"for commands"), until([PYTHON, str(bare_file)], b"bare-frame-is-here")) for _ in range(9)]
    bare_file.unlink()
    ours, bare = sorted(a for a, _ in pairs)[4], sorted(b for _, b in pairs)[4]
    show("first frame with the composer ready", ours, "s", note=f"bare Textual app {bare:.3f} s")
    return show("  ratio", ours / bare, "x", 1.4)


def _keys(env: dict[str, str], project: Path) -> bool:
    """Type before the program has drawn anything: every key must arrive."""
    wanted = "typed while it was starting"

    def lost() -> float:
        with Terminal([str(Path(PYTHON).with_name("claw"))], cwd=project, env=env) as terminal:
            for key in wanted:
                terminal.type(key)
                terminal.read(0.02)
            terminal.drain(0.5)
            return 0.0 if wanted in terminal.text() else 1.0

    return show("starts that lost a key", sum(lost() for _ in range(5)), "of 5", 0)


def _idle(env: dict[str, str], project: Path) -> bool:
    with Terminal([str(Path(PYTHON).with_name("claw"))], cwd=project, env=env) as terminal:
        terminal.wait_for("Ask for something")
        time.sleep(6)  # the SDK loads behind the first frame
        terminal.drain(0.3)
        show("memory before the first message, one SDK loaded", terminal.rss_mb(), "MB", 110)
        before, cpu = len(terminal.raw), terminal.cpu_s()
        time.sleep(20)
        terminal.drain(0.05, 0.2)
        share = (terminal.cpu_s() - cpu) / 20 * 100
        good = show("idle CPU over 20 s", share, "%", 0.3)
        return show("bytes written to the terminal while idle", len(terminal.raw) - before, "bytes", 0) and good


if __name__ == "__main__":
    raise SystemExit(0 if main() else 1)
