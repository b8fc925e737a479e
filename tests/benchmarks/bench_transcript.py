"""Speed and memory of the transcript view alone, in process: `python -m tests.benchmarks.bench_transcript`.

Prints one line a figure with its target and exits with 1 if one is missed. Compile first (`python -m compileall tui`) and
leave PYTHONDONTWRITEBYTECODE unset. A headless 120x40 terminal: what a real one costs comes on top.
"""

import asyncio
import gc
import os
import random
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import textual.screen
from textual.app import App, ComposeResult

from agent.tools.details import TextDetails
from tui.themes import register_themes
from tui.widgets.items import AssistantItem, Item, ToolItem, UserItem
from tui.widgets.transcript import TranscriptPane, TranscriptView, warm_up

SIZE = (120, 40)
PIECE_CHARS = 16
WORDS = (
    "window",
    "is",
    "a",
    "pure",
    "function",
    "of",
    "entries",
    "whatever",
    "shapes",
    "bytes",
    "stands",
    "in",
    "them",
)
missed: list[str] = []


class Bench(App[None]):
    def __init__(self) -> None:
        super().__init__()
        register_themes(self)
        self.theme = "claw-dark"
        self.pane = TranscriptPane()

    def compose(self) -> ComposeResult:
        yield self.pane


def report(name: str, value: float, target: float, unit: str, digits: int = 2) -> None:
    verdict = "ok" if value <= target else "MISSED"
    if value > target:
        missed.append(name)
    print(f"{name:<46} {value:>9.{digits}f} {unit:<3} (target {target:g} {unit}) {verdict}", flush=True)


def sentence(rng: random.Random, words: int) -> str:
    return " ".join(rng.choices(WORDS, k=words)).capitalize() + "."


def part(rng: random.Random) -> str:
    """A stretch of ordinary Markdown, about 1.2 KB."""
    fence = "\n".join(f"    total_{i} = compute(value[{i}], 'text', {i * 7})  # step {i}" for i in range(8))
    items = "\n".join(f"- **{rng.choice(WORDS)}**: {sentence(rng, 9)}" for _ in range(4))
    return (
        f"## {sentence(rng, 4)}\n\n{sentence(rng, 40)} Use `compute()` as [described](https://example.com/docs).\n\n"
        f"{items}\n\n```python\ndef step(value):\n{fence}\n```\n\n"
        f"| name | value |\n|------|------:|\n| one | {rng.random():.3f} |\n| two | {rng.random():.3f} |\n\n"
    )


def document(size_bytes: int, seed: int = 1) -> str:
    rng, parts, size = random.Random(seed), [], 0
    while size < size_bytes:
        parts.append(part(rng))
        size += len(parts[-1])
    return "".join(parts)[:size_bytes] + "\n\nTHE END\n"


def conversation(messages: int) -> Iterator[Item]:
    rng = random.Random(7)
    for number in range(messages // 4):
        yield UserItem(sentence(rng, 30), number)
        yield AssistantItem(part(rng)[:900])
        yield ToolItem(f"c{number}", "read", f"src/file_{number}.py", False, TextDetails("40 lines"), "x = 1\n" * 40)
        yield AssistantItem(sentence(rng, 60))


def shown(view: TranscriptView) -> str:
    return "\n".join(row.text for row in view.render_lines(view.size.region))


def rss_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 1e6


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(20_000):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise TimeoutError("what was waited for did not appear on the screen")


async def burst(view: TranscriptView, size_bytes: int) -> tuple[float, float]:
    """Seconds until the end is visible, and CPU seconds, of a text fed as fast as it is taken."""
    text = document(size_bytes)
    view.clear()
    await asyncio.sleep(0.2)
    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    for at in range(0, len(text), PIECE_CHARS):
        view.feed(text[at : at + PIECE_CHARS])
        if at % 4096 == 0:
            await asyncio.sleep(0)
    view.end_message()
    await until(lambda: any("THE END" in row.text for row in view.render_lines(view.size.region)))
    return time.perf_counter() - wall, time.process_time() - cpu


async def steady(view: TranscriptView, seconds: float) -> float:
    """CPU seconds of 1,000 characters a second for that long."""
    view.clear()
    text, start, cpu = document(int(1000 * seconds), 3), time.perf_counter(), time.process_time()
    for number, at in enumerate(range(0, len(text), PIECE_CHARS)):
        view.feed(text[at : at + PIECE_CHARS])
        await asyncio.sleep(max(0.0, start + number * PIECE_CHARS / 1000 - time.perf_counter()))
    view.end_message()
    return time.process_time() - cpu


async def timed(repeat: int, action: Callable[[], object]) -> list[float]:
    """Milliseconds of each run of the action, the frame included, without what the terminal costs."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        action()
        times.append((time.perf_counter() - start) * 1000)
        await asyncio.sleep(0.02)
    return times


async def streaming(view: TranscriptView) -> None:
    await burst(view, 50_000)
    runs = [await burst(view, 200_000) for _ in range(5)]
    wall, cpu = (statistics.median(values) for values in zip(*runs, strict=True))
    report("200 KB at full speed: end visible", wall, 0.4, "s")
    report("200 KB at full speed: CPU", cpu, 0.7, "s")
    double = statistics.median([(await burst(view, 400_000))[1] for _ in range(5)])
    report("400 KB / 200 KB: CPU", double / cpu, 2.2, "x")
    seconds = 4.0
    report("1,000 characters a second for 8 s: CPU", await steady(view, seconds) * 8 / seconds, 1.2, "s")


async def long_conversation(app: Bench, view: TranscriptView, resize: Callable[[int, int], object]) -> None:
    view.clear()
    await asyncio.sleep(0.1)
    items = list(conversation(10_000))
    gc.collect()
    before = rss_mb()
    start = time.perf_counter()
    view.load(items)
    view.frame()
    report("10,000 messages: open", time.perf_counter() - start, 0.5, "s")
    del items

    def add() -> None:
        view.add_assistant("One **more** message.")
        view.frame()

    report("+1 message (p50)", statistics.median(await timed(20, add)), 10, "ms")
    up = await timed(40, view.page_up)
    report("page up into unseen text (worst)", max(up), 30, "ms")
    report("page down (worst)", max(await timed(40, view.page_down)), 30, "ms")
    view.jump(0.4)
    report("page down into unseen text (worst)", max(await timed(40, view.page_down)), 30, "ms")
    gc.collect()
    report("memory with the text in it", rss_mb() - before, 60, "MB", 1)
    start = time.perf_counter()
    resize(100, 30)
    await until(lambda: view.size.width == 99 and len(view.render_lines(view.size.region)) == 30)
    report("resize", (time.perf_counter() - start) * 1000, 150, "ms", 1)
    start = time.perf_counter()
    view.toggle_all_cards()
    report("unfold all 2,500 cards", (time.perf_counter() - start) * 1000, 500, "ms", 1)
    assert app.is_running


async def main() -> None:
    if os.environ.get("PYTHONDONTWRITEBYTECODE"):
        print("note: PYTHONDONTWRITEBYTECODE is set")
    vars(textual.screen)["UPDATE_PERIOD"] = 1 / 240  # as the application does
    app = Bench()
    async with app.run_test(size=SIZE) as pilot:
        warm_up()
        view = app.pane.view
        loop = asyncio.get_running_loop()
        # As the application does after its first frame: no full collections of what lives for ever.
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000, 20, 50)
        await streaming(view)
        await long_conversation(app, view, lambda w, h: loop.create_task(pilot.resize_terminal(w, h)))


if __name__ == "__main__":
    asyncio.run(main())
    sys.exit(1 if missed else 0)
