"""Runs the quick subcommands of claw within the test's process: what they write, how they end."""

import os
from pathlib import Path

import pytest

from tests.fakes.claw_process import Done
from tui.cli import run


class Place:
    """An empty home and a project, where `claw …` is run."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.home = folder / "home"
        self.project = folder / "project"
        self.project.mkdir()
        self.user_file = self.home / "config" / "config.toml"
        self.project_file = self.project / ".claw" / "config.toml"
        self.auth_file = self.home / "data" / "auth.json"
        self.set = monkeypatch.setenv
        self._capsys = capsys
        for name in [name for name in os.environ if name.endswith("_API_KEY")]:
            monkeypatch.delenv(name)
        self.set("CLAW_HOME", str(self.home))
        self.set("HOME", str(self.home))
        monkeypatch.chdir(self.project)

    def claw(self, *arguments: str) -> Done:
        code = run(arguments)
        captured = self._capsys.readouterr()
        return Done(code, captured.out, captured.err)

    def write(self, path: Path, text: str | bytes) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path
