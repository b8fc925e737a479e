"""A session of 10,000 messages in the terminal: opening it, one message more, paging, resizing, memory."""

import random
import statistics
import time
from collections.abc import Iterator

from agent.context.tokens import TOKENIZER, estimate
from agent.store.session_file import SessionFile
from agent.store.sessions import new_session
from agent.tools.base import spec
from agent.tools.built_in import built_in_tools
from agent.tools.details import TextDetails
from agent.transcript import Assistant, Payload, Prefix, Result, Setting, Transcript, User, encode_payload
from providers.models import model_family
from providers.types import PromptSection, TextBlock, ToolCall, Usage
from tests.benchmarks.bench_transcript import part, sentence
from tests.benchmarks.kit import CLAW, FIRST_FRAME, ModelProcess, Place, compile_all, quantile, scratch, show
from tests.fakes.terminal import Terminal

MESSAGES = 10_000
MODEL = "claude-test"
LAST = "THE VERY LAST ONE"
RUNS = 5


def main() -> bool:
    compile_all()
    with ModelProcess() as server, scratch() as place:
        session_id = write_session(place, MESSAGES)
        return all([_opening(server, place, session_id), _inside(server, place, session_id)])


def write_session(place: Place, messages: int) -> str:
    """A session file of finished messages, every fourth one's reply with a call; its id."""
    store = new_session(place.home / "data" / "sessions", place.project, print)
    assert isinstance(store, SessionFile)
    transcript = Transcript()
    payloads = enumerate(_payloads(messages, str(place.project)))
    entries = [transcript.append(payload, 1_000 * number) for number, payload in payloads]
    store.append(entries)
    store.save_counts(TOKENIZER, {e.key: estimate(encode_payload(e.payload).decode()) for e in entries})
    store.close()
    return store.meta.id


def _payloads(messages: int, cwd: str) -> Iterator[Payload]:
    rng = random.Random(7)
    yield Prefix((PromptSection("s", "You are claw.", True),), tuple(spec(tool) for tool in built_in_tools()))
    yield Setting("anthropic", MODEL, model_family(MODEL), "anthropic", None, "ask", cwd=cwd)
    for number in range(messages // 4):
        call = ToolCall(f"c{number}", "read", '{"path": "a.py"}')
        usage = Usage(2_000 + number * 20, 0, 0, 300)
        yield User((TextBlock(sentence(rng, 30)),))
        yield _reply((TextBlock(part(rng)[:900]), call), usage, "tool_use")
        yield Result(call.id, "read", (TextBlock("x = 1\n" * 40),), title="a.py", details=TextDetails("40 lines"))
        last = number == messages // 4 - 1
        yield _reply((TextBlock(LAST if last else sentence(rng, 60)),), usage, "end_turn")


def _reply(blocks: tuple[TextBlock | ToolCall, ...], usage: Usage, stop: str) -> Assistant:
    return Assistant(blocks, "anthropic", MODEL, "anthropic", model_family(MODEL), None, usage, stop)  # type: ignore[arg-type]


def _resumed(server: ModelProcess, place: Place, session_id: str) -> Terminal:
    window = f'models."anthropic/{MODEL}".context_window_tokens=4000000'  # so that nothing is compacted
    argv = [CLAW, "-r", session_id, "--config", window]
    return Terminal(argv, cwd=place.project, env=place.env("anthropic", server.url))


def _wait(terminal: Terminal, wanted: bytes, at: int) -> float:
    """Read until `wanted` came behind byte `at`; when that was."""
    while wanted not in terminal.raw[at:]:
        if not terminal.read(20):
            raise AssertionError(f"{wanted!r} did not come; the screen shows:\n{terminal.text()}")
    return time.monotonic()


def _opening(server: ModelProcess, place: Place, session_id: str) -> bool:
    """The session begins to open right behind the first frame."""
    totals: list[float] = []
    opened: list[float] = []
    empty: list[float] = []
    memory: list[float] = []
    for _ in range(RUNS):
        with Terminal([CLAW], cwd=place.project, env=place.env("anthropic", server.url)) as terminal:
            started = time.monotonic()
            empty.append(_wait(terminal, FIRST_FRAME, 0) - started)
            time.sleep(5)
            terminal.drain(0.2)
            memory.append(terminal.rss_mb())
        with _resumed(server, place, session_id) as terminal:
            started = time.monotonic()
            first = _wait(terminal, FIRST_FRAME, 0)
            end = _wait(terminal, LAST.encode(), 0)
            totals.append(end - started)
            opened.append(end - first)
            time.sleep(5)
            terminal.drain(0.2)
            memory[-1] = terminal.rss_mb() - memory[-1]
    good = show(f"{MESSAGES:,} messages: first frame to the last message", statistics.median(opened), "s", 0.5)
    show(
        "  from exec", statistics.median(totals), "s", note=f"an empty one's first frame {statistics.median(empty):.3f}"
    )
    return show("  memory above an empty session", statistics.median(memory), "MB", 60) and good


def _inside(server: ModelProcess, place: Place, session_id: str) -> bool:
    with _resumed(server, place, session_id) as terminal:
        _wait(terminal, LAST.encode(), 0)
        time.sleep(5)
        terminal.drain(0.2)
        down = _paging(terminal)
        resize = [_resize(terminal, columns, rows) for columns, rows in ((100, 30), (120, 40)) * 5]
        more = [_message(terminal, number) for number in range(20)]
    good = show("one more message: Enter to its text on the screen", statistics.median(more), "ms", 10, _worst(more))
    good &= show("page down", statistics.median(down), "ms", 30, _worst(down))
    return show("resize, to the last byte", statistics.median(resize), "ms", 150, _worst(resize)) and good


def _worst(values: list[float]) -> str:
    return f"n {len(values)}, p90 {quantile(values, 0.9):.1f}, worst {max(values):.1f}"


def _until_quiet(terminal: Terminal, started: float) -> float:
    """Milliseconds to the last byte that came before a silence."""
    last = started
    while terminal.read(0.15):
        last = time.monotonic()
    return (last - started) * 1000


def _paging(terminal: Terminal) -> list[float]:
    def press(key: str) -> float:
        started = time.monotonic()
        terminal.type(key)
        return _until_quiet(terminal, started)

    for _ in range(30):
        press("\x1b[5~")
    times = [press("\x1b[6~") for _ in range(20)]
    press("\x1b[1;5F")
    return times


def _resize(terminal: Terminal, columns: int, rows: int) -> float:
    started = time.monotonic()
    terminal.resize(columns, rows)
    return _until_quiet(terminal, started)


def _message(terminal: Terminal, number: int) -> float:
    """A mode command's echo would not do: a message is what the transcript has to take in."""
    text = f"message number {number} ."
    terminal.type(text)
    terminal.drain(0.3)
    at, started = len(terminal.raw), time.monotonic()
    terminal.type("\r")
    shown = _wait(terminal, text.encode(), at)
    terminal.drain(0.8)
    return (shown - started) * 1000


if __name__ == "__main__":
    raise SystemExit(0 if main() else 1)
