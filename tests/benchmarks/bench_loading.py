"""What is loaded behind the first frame: how the event loop and typed keys fare meanwhile, and the memory it takes.

The SDK is imported after the first frame, the tokenizer with the first message.
"""

import json
import time
from pathlib import Path

from tests.benchmarks.bench_stream import Typist
from tests.benchmarks.kit import (
    PYTHON,
    READY,
    ROOT,
    WIRES,
    ModelProcess,
    Place,
    compile_all,
    quantile,
    scratch,
    show,
    tree_memory_mb,
)
from tests.fakes.terminal import Terminal

PROBE = str(ROOT / "tests" / "benchmarks" / "probe.py")
RUNS = 3


def main() -> bool:
    compile_all()
    good = []
    with ModelProcess() as server, scratch() as place:
        for wire in WIRES:
            good.append(_sdk(server, place, wire))
            good.append(_tokenizer(server, place, wire))
    return all(good)


class Probed:
    """One start of claw with a measuring event loop."""

    def __init__(self, place: Place, wire: str, url: str) -> None:
        self._out = place.home / "probe.json"
        argv = [PYTHON, PROBE, str(self._out)]
        self.terminal = Terminal(argv, cwd=place.project, env=place.env(wire, url))
        self.terminal.wait_for(READY)
        self.ready_s = time.monotonic()
        self.late: list[tuple[float, float]] = []
        self.imports: list[tuple[float, bool, str]] = []

    def end(self) -> None:
        """Leave claw and read what was measured."""
        self.terminal.type("\x03")
        time.sleep(0.2)
        self.terminal.type("\x03")
        self.terminal.wait_end()
        self.terminal.close()
        found = json.loads(Path(self._out).read_text())
        self.late, self.imports = found["late"], found["imports"]

    def late_ms(self, start_s: float, end_s: float) -> list[float]:
        return [late * 1000 for due, late in self.late if start_s <= due <= end_s]


def _sdk(server: ModelProcess, place: Place, wire: str) -> bool:
    late: list[float] = []
    by_main: set[str] = set()
    memory: list[float] = []
    tokenizer = 0
    for _ in range(RUNS):
        probed = Probed(place, wire, server.url)
        time.sleep(6)
        probed.terminal.drain(0.1)
        memory.append(probed.terminal.rss_mb())
        probed.end()
        imports = [found for found in probed.imports if found[0] > probed.ready_s]
        sdk = [when for when, _, name in imports if name.partition(".")[0] == wire]
        late += probed.late_ms(probed.ready_s, max(sdk) + 0.3)
        by_main |= {name for when, main, name in imports if main and when < max(sdk)}
        tokenizer += sum(name.startswith("tiktoken") for _, _, name in imports)
    good = show(f"{wire}: loop's delay while the SDK loads, p99", quantile(late, 0.99), "ms", 25, f"n {len(late)}")
    good &= show("  worst", max(late), "ms", 100)
    good &= show("  modules that the main thread imported then", len(by_main), "", 0, ", ".join(sorted(by_main)[:6]))
    good &= show("  modules of the tokenizer", tokenizer, "", 0)
    show("  memory, measuring included", sorted(memory)[RUNS // 2], "MB")
    return good


def _tokenizer(server: ModelProcess, place: Place, wire: str) -> bool:
    """The first message, its keys and the loop while the tokenizer loads beside it."""
    late: list[float] = []
    echoes: list[float] = []
    memory: list[float] = []
    for _ in range(RUNS):
        probed = Probed(place, wire, server.url)
        time.sleep(6)
        terminal = probed.terminal
        terminal.drain(0.2)
        terminal.type("rate 500 3 MARK1X")
        terminal.drain(0.3)
        start = time.monotonic()
        terminal.type("\r")
        typist = Typist(terminal, 0.030)
        typist.read_until(b"DONE1X")
        server.served()
        terminal.drain(0.2)
        memory.append(tree_memory_mb(terminal.pid))
        end = time.monotonic()
        probed.end()
        late += probed.late_ms(start, end)
        echoes += [seconds * 1000 for _, seconds in typist.echoes]
    good = show(f"{wire}: loop's delay with the first message, p99", quantile(late, 0.99), "ms", note=f"n {len(late)}")
    good &= show("  worst", max(late), "ms", 100)
    good &= show("  key echo, worst", max(echoes), "ms", 100, f"n {len(echoes)}")
    return show("  memory with the tokenizer, its process included", sorted(memory)[RUNS // 2], "MB", 190) and good


if __name__ == "__main__":
    raise SystemExit(0 if main() else 1)
