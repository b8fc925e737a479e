"""The context engine over a session of 10,000 entries and a million tokens: what a step costs, and whether that grows.

In process, on the parts that every step goes through: append, gauge, pipeline, the next request's bytes, recall. Resuming
and memory are those of the program in a terminal.
"""

import statistics
import time
from collections.abc import Callable

from agent.context.budget import ContextSettings, thresholds
from agent.context.meter import Meter
from agent.context.pipeline import Facts, plan
from agent.context.tokens import TOKENIZER, Counter, estimate
from agent.recall import Recall
from agent.recorder import Recorder
from agent.store import sessions
from agent.store.base import NoStore
from agent.transcript import Assistant, Result, Transcript, User
from providers.anthropic_encoding import AnthropicEncoder
from providers.base import ModelRequest
from providers.models import ModelOverride, model_facts
from providers.responses_encoding import RequestEncoder
from providers.types import ProviderConfig, TextBlock, ToolCall, Usage
from tests.benchmarks.bench_session import LAST, MODEL, write_session
from tests.benchmarks.kit import (
    CLAW,
    ModelProcess,
    Place,
    compile_all,
    scratch,
    show,
    tree_memory_mb,
)
from tests.fakes.terminal import Terminal

SIZES = (100, 1_000, 10_000)
REPEATS = 40
WINDOW_TOKENS = 4_000_000


def main() -> bool:
    compile_all()
    counter = Counter()
    counter.load()
    with scratch() as place:
        costs = {entries: Engine(place, entries, counter).measure() for entries in SIZES}
        good = _grows(costs)
        with ModelProcess() as server:
            good &= _in_terminal(server, place)
    return good


def _grows(costs: "dict[int, dict[str, float]]") -> bool:
    good = True
    limits = {"append and gauge": 5.0, "next request, anthropic": 50.0, "next request, openai": 50.0, "recall": 50.0}
    for name in costs[SIZES[-1]]:
        shown = ", ".join(f"{costs[entries][name]:.3f} at {entries:,}" for entries in SIZES[:-1])
        good &= show(f"10,000 entries: {name}", costs[SIZES[-1]][name], "ms", limits.get(name), f"({shown})")
    return good


class Engine:
    """One session's parts without a screen or a server."""

    def __init__(self, place: Place, entries: int, counter: Counter) -> None:
        session_id = write_session(place, entries)
        loaded = sessions.load(place.home / "data" / "sessions" / f"{session_id}.db")
        meter = Meter(counter)
        meter.load_counts(loaded.counts.get(TOKENIZER, {}))
        self.recorder = Recorder(Transcript(loaded.entries), NoStore(), meter)
        facts = model_facts(
            ProviderConfig("anthropic", "anthropic"), MODEL, ModelOverride(context_window_tokens=WINDOW_TOKENS)
        )
        self.limits = thresholds(facts, ContextSettings(), {})
        self.recall = Recall(self.recorder.transcript, self.recorder.store.blob)
        self.encoders: dict[str, Callable[[ModelRequest], bytes]] = {
            "anthropic": AnthropicEncoder().body,
            "openai": RequestEncoder().body,
        }
        self.number = 0
        if entries == SIZES[-1]:
            tokens = sum(estimate(text.text) for e in loaded.entries for text in _texts(e.payload))
            print(f"{len(loaded.entries):,} entries, about {tokens:,} tokens; the gauge says {meter.used().tokens:,}")

    def measure(self) -> dict[str, float]:
        """Milliseconds, the median of some runs each."""
        self._step()
        for encode in self.encoders.values():
            encode(self._request())
        self.recall.search("warm up")
        taken: dict[str, list[float]] = {}
        for _ in range(REPEATS):
            started = time.perf_counter()
            self._step()
            taken.setdefault("append and gauge", []).append(time.perf_counter() - started)
            started = time.perf_counter()
            recorder = self.recorder
            plan(
                recorder.transcript.branch,
                recorder.window,
                recorder.meter,
                Facts(recorder.transcript.branch[-1].time_ms, self.limits),
            )
            taken.setdefault("pipeline", []).append(time.perf_counter() - started)
            for name, encode in self.encoders.items():
                request = self._request()
                started = time.perf_counter()
                encode(request)
                taken.setdefault(f"next request, {name}", []).append(time.perf_counter() - started)
            started = time.perf_counter()
            self.recall.search(f"question number {self.number} nowhere else")
            taken.setdefault("recall", []).append(time.perf_counter() - started)
        return {name: statistics.median(values) * 1000 for name, values in taken.items()}

    def _step(self) -> None:
        """A user's message, a reply with a call and its result; the gauge after each."""
        self.number += 1
        call = ToolCall(f"new_{self.number}", "read", '{"path": "b.py"}')
        usage = Usage(50, 1_000_000 + self.number * 200, 0, 40)
        for payload in (
            User((TextBlock(f"question number {self.number}"),)),
            Assistant((call,), "anthropic", MODEL, "anthropic", "claude", None, usage, "tool_use"),
            Result(call.id, "read", (TextBlock(f"y = {self.number}\n" * 20),), title="b.py"),
        ):
            self.recorder.append(payload)
            self.recorder.meter.used()

    def _request(self) -> ModelRequest:
        window = self.recorder.window
        return ModelRequest(
            MODEL,
            window.prefix.sections,
            window.prefix.tools,
            window.sealed() if window.open_calls else window.messages,
            window.generation,
            window.stable,
            32_000,
            sent_before=window.sent,
        )


def _texts(payload: object) -> list[TextBlock]:
    blocks = payload.blocks if isinstance(payload, User | Assistant | Result) else ()
    return [block for block in blocks if isinstance(block, TextBlock)]


def _in_terminal(server: ModelProcess, place: Place) -> bool:
    session_id = write_session(place, SIZES[-1])
    window = f'models."anthropic/{MODEL}".context_window_tokens={WINDOW_TOKENS}'
    argv = [CLAW, "-r", session_id, "--config", window]
    starts: list[float] = []
    for _ in range(5):
        with Terminal(argv, cwd=place.project, env=place.env("anthropic", server.url)) as terminal:
            began = time.monotonic()
            while LAST.encode() not in terminal.raw:
                assert terminal.read(20), terminal.text()
            starts.append(time.monotonic() - began)
            time.sleep(3)
            terminal.drain(0.2)
            memory = tree_memory_mb(terminal.pid)
    good = show("resume, from exec to the last message on the screen", statistics.median(starts), "s", 1.0)
    return show("memory with it, child processes included", memory, "MB", 400) and good


if __name__ == "__main__":
    raise SystemExit(0 if main() else 1)
