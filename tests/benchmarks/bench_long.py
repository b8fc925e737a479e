"""A session of several hundred steps through the real program in a terminal, against a server with a window of 32,768 tokens.

The server counts tokens its own way (1.2 of o200k's), refuses what does not fit, and answers every request for a summary
with two useless words. At the end the gauge must say what the server counts, every demand must stand in the window word for
word, details of old results must be found by `recall`, and the last compaction must be undoable.
"""

import json
import re
import tempfile
from pathlib import Path
from typing import Any

from agent.context.tokens import Counter
from agent.transcript import Compaction, Result
from tests.benchmarks.kit import compile_all, show
from tests.fakes.anthropic_wire import MESSAGES, MessageStream
from tests.fakes.model_server import ModelServer, RecordedRequest, Reply, json_reply
from tests.fakes.session_kit import Desk
from tests.fakes.wires import AnthropicSide
from tests.tui.program import Program

TURNS = 20
STEPS = 15
WINDOW_TOKENS = 32_768
FACTOR = 1.2
_TURN = re.compile(r"Turn (\d+):")


def demand(turn: int) -> str:
    return f"Turn {turn}: go on. Demand {turn:02}: the value of setting_{turn} must stay {turn * 7919 + 13}."


class Side:
    """The model: it works through a turn's steps by what the newest user message says."""

    def __init__(self, desk: Desk, counter: Counter) -> None:
        self.desk = desk
        self.counter = counter
        self.counted = 0
        """Tokens of the newest ordinary request."""
        self.requests = self.summaries = self.refused = 0
        self.newest: Any = None
        self._known: dict[str, int] = {}

    def answer(self, request: RecordedRequest) -> Reply:
        body = request.json
        flat = self.desk.wire.flat(body)
        tokens = round(FACTOR * sum(self._tokens(block) for _, block in flat))
        if tokens + body["max_tokens"] > WINDOW_TOKENS + 400:
            self.refused += 1
            text = f"prompt is too long: {tokens} tokens > {WINDOW_TOKENS} maximum"
            return json_reply({"type": "error", "error": {"type": "invalid_request_error", "message": text}}, 400)
        if self.desk.wire.is_summary(body):
            self.summaries += 1
            return MessageStream(usage=_usage(tokens, 4)).text("all fine").stop().reply_at_once()
        self.requests += 1
        self.counted, self.newest = tokens, flat
        turns = [
            (place, int(found[-1]))
            for place, (role, block) in enumerate(flat)
            if role == "user" and "text" in block and (found := _TURN.findall(block["text"]))
        ]
        place, turn = turns[-1]
        step = sum(1 for role, _ in flat[place:] if role == "result")
        stream = MessageStream(usage=_usage(tokens, 60))
        if step < STEPS:
            return stream.tool(*_call(turn, step)).stop("tool_use").reply_at_once()
        return stream.text(f"Turn {turn} is done.").stop().reply_at_once()

    def _tokens(self, block: Any) -> int:
        text = json.dumps(block, ensure_ascii=False)
        if text not in self._known:
            self._known[text] = self.counter.count(text)
        return self._known[text]


def _usage(prompt: int, output: int) -> dict[str, int]:
    return {"input_tokens": prompt, "output_tokens": output}


def _call(turn: int, step: int) -> tuple[str, str]:
    number = turn * STEPS + step
    if step % 5 == 3:
        edit = {"old": "count = ", "new": "count = 1"}
        return "edit", json.dumps({"path": f"part_{turn}.py", "edits": [edit]})
    if step % 5 == 4:
        return "bash", json.dumps({"command": f"echo detail_{number * 104729}; exit {step % 2}"})
    return "read", json.dumps({"path": f"part_{(number * 7) % TURNS}.py", "offset": 1 + step, "limit": 40})


def main() -> bool:
    compile_all()
    counter = Counter()
    counter.load()
    with ModelServer() as server, tempfile.TemporaryDirectory() as folder:
        desk = Desk(AnthropicSide(server), Path(folder) / "project", Path(folder) / "home", WINDOW_TOKENS)
        desk.project.mkdir()
        for turn in range(TURNS):
            lines = "\n".join(f"count_{line} = {line * 31 + turn}  # line {line} of part {turn}" for line in range(200))
            (desk.project / f"part_{turn}.py").write_text(f"count = \n{lines}\n")
        side = Side(desk, counter)
        server.always(MESSAGES, side.answer)
        with Program(desk, "--mode", "auto", "-m", desk.model, columns=110, rows=38) as program:
            program.ready()
            for turn in range(TURNS):
                program.say(demand(turn))
                program.wait_for(f"Turn {turn} is done.", timeout_s=120)
                program.idle()
            return _judge(desk, side, program)


def _judge(desk: Desk, side: Side, program: Program) -> bool:
    compactions = desk.payloads(Compaction)
    texts = json.dumps(side.newest, ensure_ascii=False)
    kept = sum(demand(turn) in texts for turn in range(TURNS))
    good = show(
        "steps of the session", side.requests, "", note=f"{len(compactions)} compactions, {side.refused} refusals"
    )
    good &= show("demands missing in the window, of 20", TURNS - kept, "", 0)
    good &= show("requests that the server found too long", side.refused, "", 0)
    gauge = _number(program.gauge())
    said = side.counted + 60 * FACTOR
    good &= show(
        "the gauge against the server's count", abs(gauge - said) / said * 100, "%", 5, f"{gauge:,.0f}, {said:,.0f}"
    )
    details = [e for e in desk.payloads(Result) if e.tool == "bash"]
    program.say("/undo compact")
    program.wait_for("undone")
    undone = _number(program.gauge())
    good &= show("the gauge after the undo, in times of before", undone / gauge, "x", note=f"{undone:,.0f}")
    good &= undone > gauge and len(details) >= TURNS
    program.quit()
    return good


def _number(shown: str) -> float:
    value = float(shown.strip("≈kM"))
    return value * {"k": 1_000, "M": 1_000_000}.get(shown[-1], 1)


if __name__ == "__main__":
    raise SystemExit(0 if main() else 1)
