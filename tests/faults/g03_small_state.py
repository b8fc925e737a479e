"""Small state under many writers: eight processes change the same files at once, and nothing of it is lost or broken.

As a program it is those eight: it forks them, lets each make its updates of every kind, and ends with 0 if none met a
broken file or found an own change undone.
"""

import asyncio
import contextlib
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from agent.config.auth import read_auth, save_key
from agent.config.editing import set_key
from agent.config.files import ConfigFile
from agent.permissions.consents import Consents
from agent.permissions.grants import Grants, edit_state, read_state
from agent.store.base import SessionMeta
from agent.store.index import SessionIndex
from agent.store.session_file import SessionFile
from providers.types import Secret
from tests.fakes.store_writer import entry
from tests.faults.gate import Gate, Reading
from tui.composing.history import PromptHistory
from tui.theme_choice import keep_theme, kept_theme

PROCESSES, UPDATES, REPEATS = 8, 100, 20
PROJECT = Path("/somewhere/project")
CONFIG_KEYS = (
    *("context.reserve_tokens", "context.keep_recent_tokens", "context.user_words_tokens", "context.pin_tokens"),
    *("instructions.max_file_chars", "instructions.max_total_chars", "limits.max_turns", "limits.retention_days"),
)
"""One for each process."""

Worker = Callable[[int], None]
"""Makes an update by its number, and raises where it finds an earlier one of its own undone or the file broken."""


class Place(NamedTuple):
    root: Path

    @property
    def state(self) -> Path:
        return self.root / "state" / "state.toml"

    @property
    def history(self) -> Path:
        return self.root / "state" / "history"

    @property
    def config(self) -> ConfigFile:
        return ConfigFile("user", self.root / "config" / "config.toml")

    @property
    def auth(self) -> Path:
        return self.root / "data" / "auth.json"

    @property
    def sessions(self) -> Path:
        return self.root / "data" / "sessions"

    def open_index(self) -> SessionIndex:
        return SessionIndex(self.sessions, self.root / "data" / "index.db")


# --------------------------------------------------------------------------- what one process does


def _grants(place: Place, me: int) -> Worker:
    def update(number: int) -> None:
        Grants(place.state).add(PROJECT, f"bash(run {me} {number})")
        assert f"bash(run {me} {number})" in Grants(place.state).rules(PROJECT)

    return update


def _consents(place: Place, me: int) -> Worker:
    consents = Consents(place.state, PROJECT)

    def update(number: int) -> None:
        consents.decide(Path(f"/{me}/{number}"), number % 2 == 0)
        assert consents.decision(Path(f"/{me}/{number}")) is (number % 2 == 0)

    return update


def _choices(place: Place, me: int) -> Worker:
    def update(number: int) -> None:
        keep_theme(place.state, f"theme-{me}")
        assert str(kept_theme(place.state)).startswith("theme-")
        edit_state(place.state, lambda state: state.setdefault("counts", {}).update({str(me): number}))
        assert read_state(place.state)["counts"][str(me)] == number

    return update


def _history(place: Place, me: int) -> Worker:
    history = PromptHistory(place.history)
    return lambda number: history.save(f"prompt {me} {number}")


def _config(place: Place, me: int) -> Worker:
    before = 0

    def update(number: int) -> None:
        nonlocal before
        if before:
            assert f" = {before}\n" in place.config.path.read_text(), "an own change was undone"
        before = 1_000_000 + 1_000 * (me + 1) + number
        set_key(place.config, CONFIG_KEYS[me], str(before), place.root / "state" / "config")

    return update


def _keys(place: Place, me: int) -> Worker:
    def update(number: int) -> None:
        save_key(place.auth, f"provider-{me}-{number}", Secret(f"key-{me}-{number}"))

    return update


def _index(place: Place, me: int) -> Worker:
    store = SessionFile(place.sessions / f"2026010{me}-000000-abcd.db", SessionMeta(f"s{me}", str(PROJECT), 1))
    index = place.open_index()

    def update(number: int) -> None:
        store.append([entry(number + 1, f"walrus {me} {number}")])
        asyncio.run(store.durable(number + 1))
        index.note(store.path)

    return update


KINDS: tuple[Callable[[Place, int], Worker], ...] = (_grants, _consents, _choices, _history, _config, _keys, _index)


def _work(place: Place, me: int, updates: int) -> None:
    workers = [make(place, me) for make in KINDS]
    for number in range(updates):
        for worker in workers:
            worker(number)


def _main(root: str, updates: int) -> int:
    children = []
    for me in range(PROCESSES):
        if (pid := os.fork()) == 0:
            try:
                os.umask((0, 0o077)[me % 2])
                _work(Place(Path(root)), me, updates)
            except BaseException:
                sys.excepthook(*sys.exc_info())
                os._exit(1)
            os._exit(0)
        children.append(pid)
    return sum(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0 for pid in children)


# --------------------------------------------------------------------------- what must be there then


def _faults(place: Place, updates: int) -> Iterator[str]:
    """What is lost or broken, a line each."""
    every = [(me, number) for me in range(PROCESSES) for number in range(updates)]
    state = read_state(place.state)
    rules = state["grants"][str(PROJECT)]["allow"]
    if sorted(rules) != sorted(f"bash(run {me} {number})" for me, number in every):
        yield f"{len(rules)} grants"
    consents = Consents(place.state, PROJECT)
    if any(consents.decision(Path(f"/{me}/{number}")) is not (number % 2 == 0) for me, number in every):
        yield "consents"
    if state["counts"] != {str(me): updates - 1 for me in range(PROCESSES)} or "theme" not in state["tui"]:
        yield "choices"
    lines = [json.loads(line) for line in place.history.read_bytes().splitlines()]
    if sorted(lines) != sorted(f"prompt {me} {number}" for me, number in every):
        yield f"{len(lines)} prompts"
    text = place.config.path.read_text()
    if any(f" = {1_000_000 + 1_000 * (me + 1) + updates - 1}\n" not in text for me in range(PROCESSES)):
        yield f"config: {text}"
    keys, problems = read_auth(place.auth)
    if {name: key.reveal() for name, key in keys.items()} != {f"provider-{a}-{b}": f"key-{a}-{b}" for a, b in every}:
        yield f"{len(keys)} keys {problems}"
    with contextlib.closing(place.open_index()) as index:
        infos, told = index.complete()
        found = index.search("walrus", 10 * PROCESSES * updates)
    if told or [info.entries for info in infos] != [updates] * PROCESSES or len(found) != PROCESSES * updates:
        yield f"index: {told} {len(found)} found"
    with contextlib.closing(sqlite3.connect(place.root / "data" / "index.db")) as connection:
        if connection.execute("PRAGMA integrity_check").fetchall() != [("ok",)]:
            yield "the index is damaged"
    for path in place.root.rglob("*"):
        if path.stat().st_mode & 0o077 or path.name.startswith(".state") or ".damaged-" in path.name:
            yield f"{path} is left, or looser than it may be"


def trial(updates: int) -> list[str]:
    """Eight processes make so many updates of each kind; what was lost or broken."""
    with tempfile.TemporaryDirectory(prefix="claw-state-") as folder:
        argv = [sys.executable, "-m", __name__, folder, str(updates)]
        done = subprocess.run(argv, cwd=Path(__file__).parents[2], capture_output=True, text=True)
        if done.returncode:
            return [f"{done.returncode} processes failed: {done.stderr}"]
        return list(_faults(Place(Path(folder)), updates))


def measure(share: float) -> Reading:
    repeats = max(1, round(REPEATS * share))
    updates = max(3, round(UPDATES * min(1.0, 5 * share)))
    bad = [faults for faults in (trial(updates) for _ in range(repeats)) if faults]
    total = repeats * PROCESSES * updates * len(KINDS)
    reached = f"{total:,} updates of {len(KINDS)} kinds by {PROCESSES} processes in {repeats} runs, {len(bad)} runs with losses"
    return Reading(f"{reached}{'' if not bad else f': {bad[0][0]}'}", not bad)


GATE = Gate(
    id="G3",
    title="Eight processes change grants, consents, choices, prompt history, configuration, keys and the index at once",
    goal=f"{PROCESSES} x {UPDATES} updates of each kind, {REPEATS} repeats: 0 corrupt, 0 lost",
    reference="335 corrupt files of this kind in 7 days, reported of another agent",
    measure=measure,
)


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1], int(sys.argv[2])))
