"""Streaming through the real client: how soon the end is visible, what it costs, how typed keys echo meanwhile."""

import itertools
import statistics
import time
from dataclasses import dataclass

from tests.benchmarks.kit import CLAW, READY, WIRES, ModelProcess, Place, compile_all, quantile, scratch, show
from tests.fakes.terminal import Terminal

KEYS = [chr(code) for code in range(0x100, 0x170)]
"""Letters of one cell that stand in no text here."""
KEY_EVERY_S = 0.030
_marks = itertools.count(1)


@dataclass(frozen=True)
class Run:
    visible_s: float
    """From the first byte to the last paragraph on the screen."""
    cpu_s: float
    echoes_ms: list[float]
    """Of the keys typed between the two."""


def main() -> bool:
    compile_all()
    good = []
    with ModelProcess() as server, scratch() as place:
        for wire in WIRES:
            good += [_bursts(server, place, wire, how) for how in ("big", "each")]
            good.append(_typing(server, place, wire))
            good.append(_steady(server, place, wire))
    return all(good)


def warmed(server: ModelProcess, place: Place, wire: str) -> Terminal:
    """A claw that has answered once, its tokenizer loaded."""
    terminal = Terminal([CLAW], cwd=place.project, env=place.env(wire, server.url))
    terminal.wait_for(READY)
    terminal.type("hello\r")
    terminal.wait_for("A short answer.")
    server.served()
    time.sleep(3)
    terminal.drain(0.2)
    return terminal


def stream(terminal: Terminal, server: ModelProcess, order: str, key_every_s: float | None = None) -> Run:
    """Send the order as a prompt and read until the end of the reply is on the screen; with keys, type meanwhile."""
    number = next(_marks)
    terminal.type(f"{order} MARK{number}X")
    terminal.drain(0.3)
    cpu = terminal.cpu_s()
    terminal.type("\r")
    typist = Typist(terminal, key_every_s)
    typist.read_until(f"DONE{number}X".encode())
    end = time.monotonic()
    first = server.served().first_byte_s
    terminal.drain(0.5)
    used = terminal.cpu_s() - cpu
    terminal.type("\x15")  # empties the composer
    terminal.drain(0.2)
    return Run(end - first, used, [late * 1000 for when, late in typist.echoes if first <= when <= end])


class Typist:
    """Reads a terminal and types a key every few milliseconds, one at a time: the next once the last stands there."""

    def __init__(self, terminal: Terminal, key_every_s: float | None) -> None:
        self.echoes: list[tuple[float, float]] = []
        """(when the key was typed, seconds until it was on the screen)."""
        self._terminal = terminal
        self._every_s = key_every_s or float("inf")
        self._due = time.monotonic() + self._every_s
        self._keys = itertools.cycle(KEYS)
        self._key = b""
        self._typed_s = 0.0

    def read_until(self, wanted: bytes, timeout_s: float = 60.0) -> None:
        """
        Raises:
            AssertionError: it did not come, or the program ended.
        """
        terminal, at = self._terminal, len(self._terminal.raw)
        limit = time.monotonic() + timeout_s
        while True:
            seen = max(at, len(terminal.raw) - 2 * len(wanted))
            terminal.read(min(1.0, max(0.0, self._due - time.monotonic())))
            now, fresh = time.monotonic(), bytes(terminal.raw[seen:])
            if self._key and self._key in fresh:
                self.echoes.append((self._typed_s, now - self._typed_s))
                self._key = b""
            if wanted in fresh:
                return
            if now >= self._due:
                self._type(now)
            if now > limit or terminal.ended():
                raise AssertionError(f"{wanted!r} did not come; the screen shows:\n{terminal.text()}")

    def _type(self, now: float) -> None:
        self._due = now + self._every_s
        if not self._key:
            key = next(self._keys)
            self._terminal.type(key)
            self._key, self._typed_s = key.encode(), time.monotonic()


def _bursts(server: ModelProcess, place: Place, wire: str, how: str) -> bool:
    with warmed(server, place, wire) as terminal:
        runs = [stream(terminal, server, f"stream 200 {how}") for _ in range(5)]
        visible = statistics.median(run.visible_s for run in runs)
        cpu = statistics.median(run.cpu_s for run in runs)
    with warmed(server, place, wire) as terminal:
        double = [stream(terminal, server, f"stream 400 {how}") for _ in range(3)]
    name = f"{wire}, chunks {'of 16 KB' if how == 'big' else 'of one event'}, 200 KB:"
    good = show(f"{name} end visible", visible, "s", 0.4, f"worst {max(run.visible_s for run in runs):.3f}")
    good &= show(f"{name} CPU", cpu, "s", 0.7, f"worst {max(run.cpu_s for run in runs):.3f}")
    ratio = statistics.median(run.cpu_s for run in double) / cpu
    good &= show("  400 KB: CPU", ratio, "x", 2.2)
    slower = statistics.median(run.visible_s for run in double) / visible
    return show("  400 KB: end visible", slower, "x", 2.2) and good


def _typing(server: ModelProcess, place: Place, wire: str) -> bool:
    echoes: list[float] = []
    with warmed(server, place, wire) as terminal:
        for how in ("big", "each"):
            echoes += stream(terminal, server, f"stream 2000 {how}", KEY_EVERY_S).echoes_ms
    note = f"n {len(echoes)}, p95 {quantile(echoes, 0.95):.1f}"
    good = show(f"{wire}, 2,000 KB: key echo, median", statistics.median(echoes), "ms", 20, note)
    return show("  worst", max(echoes), "ms", 60) and good


def _steady(server: ModelProcess, place: Place, wire: str) -> bool:
    with warmed(server, place, wire) as terminal:
        runs = [stream(terminal, server, "rate 1000 8", 0.150) for _ in range(3)]
    cpu, worst = statistics.median(run.cpu_s for run in runs), max(run.cpu_s for run in runs)
    good = show(f"{wire}, 1,000 characters a second for 8 s: CPU", cpu, "s", 1.2, f"n 3, worst {worst:.3f}")
    return show("  key echo, worst", max(max(run.echoes_ms) for run in runs), "ms", 60) and good


if __name__ == "__main__":
    raise SystemExit(0 if main() else 1)
