"""How long a paste takes: in the composer until it stands there, and from the terminal's first byte until it is on the screen."""

import asyncio
import os
import sys
import tempfile
import threading
import time
from pathlib import Path

from tests.benchmarks.kit import clean_env, compile_all, median, show
from tests.fakes.terminal import Terminal
from tests.tui.harness import running
from tests.tui.test_composer import composer_of

LINES = {
    "plain lines": "0123456789 abcdefghij 0123456789 abcdefghij\n",
    "other scripts, Windows line ends": "日本語 é 👩‍💻 текст\r\n",
    "a terminal's log": "\x1b[32mok\x1b[0m 12 passed\r\n",
}
TARGETS_MS = {1_000_000: 100, 10_000_000: 1_000}


def of_size(line: str, size: int) -> str:
    return line * (size // len(line.encode()))


async def folded_ms(text: str) -> float:
    async with running() as (app, _):
        begun = time.perf_counter()
        composer_of(app).insert_text(text)
        return (time.perf_counter() - begun) * 1000


def seen_ms(text: str) -> float:
    with tempfile.TemporaryDirectory() as folder:
        env = clean_env(Path(folder), TEXTUAL_ANIMATIONS="none")
        argv = [sys.executable, "-m", "claw", "-m", "scripted/demo"]
        with Terminal(argv, cwd=Path(folder), env=env, columns=100, rows=30) as claw:
            claw.wait_for("Ask for something")
            data = f"\x1b[200~{text}\x1b[201~".encode()
            begun = time.perf_counter()
            writer = threading.Thread(target=_write_all, args=(claw.fd, data))
            writer.start()
            claw.wait_for("[paste 1: ")
            taken = (time.perf_counter() - begun) * 1000
            writer.join()
    return taken


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data[:65_536]) :]


def main() -> int:
    compile_all()
    good: list[bool] = []
    for size, target_ms in TARGETS_MS.items():
        for name, line in LINES.items():
            text = of_size(line, size)
            taken = median(lambda text=text: asyncio.run(folded_ms(text)), 3)  # type: ignore[misc] # the loop's own text
            good.append(show(f"a paste of {size // 1_000_000} MB, {name}", taken, "ms", target_ms))
        seen = seen_ms(of_size(LINES["plain lines"], size))
        good.append(show(f"a paste of {size // 1_000_000} MB through the terminal", seen, "ms", 2 * target_ms))
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
