"""The model server of the benchmarks, in a process of its own: `python -m tests.benchmarks.model_process`.

Its first line of output is its address; then comes one line for each request that got a reply. What a prompt asks for:
`stream KB big|each MARK` is that much Markdown as fast as it goes, in chunks of 16 KB or one an event; `rate CPS SECONDS
MARK` is Markdown at that speed; anything else gets a few words. The reply ends with the paragraph `DONE…` where the prompt
has `MARK…`. Ends with its standard input.
"""

import functools
import json
import re
import sys
import time

from tests.benchmarks.bench_transcript import document
from tests.fakes.anthropic_wire import MESSAGES, MessageStream
from tests.fakes.model_server import Chunk, ModelServer, RecordedRequest, Reply, pieces
from tests.fakes.responses_wire import RESPONSES, ResponseStream

PIECE_CHARS = 16
_ORDER = re.compile(rb"(stream|rate) (\d+) (\w+) (MARK\w+)")
SHORT = "A short answer."


def main() -> None:
    with ModelServer() as server:
        server.anthropic.models({"id": "claude-test"})
        server.always(MESSAGES, _answer)
        server.always(RESPONSES, _answer)
        print(server.url, flush=True)
        sys.stdin.read()


def _answer(request: RecordedRequest) -> Reply:
    orders = _ORDER.findall(request.body)
    verb, amount, how, mark = (part.decode() for part in orders[-1]) if orders else ("", "0", "", "")
    anthropic = request.path == MESSAGES
    reply = _reply(anthropic, verb, int(amount), how, mark)
    print(json.dumps({"arrived_s": request.arrived_s, "first_byte_s": time.monotonic()}), flush=True)
    return reply


@functools.lru_cache(8)
def _events(anthropic: bool, text: str) -> tuple[bytes, ...]:
    if anthropic:
        return tuple(MessageStream().text(text, PIECE_CHARS).stop().events)
    return tuple(ResponseStream().text(text, PIECE_CHARS).complete().events)


def _reply(anthropic: bool, verb: str, amount: int, how: str, mark: str) -> Reply:
    match verb:
        case "stream":
            events = _events(anthropic, _text(amount * 1000, mark))
            if how == "big":
                return Reply(pieces(b"".join(events), 16_384))
            return Reply(tuple(Chunk(event) for event in events))
        case "rate":
            events = _events(anthropic, _text(amount * int(how), mark))
            return Reply(tuple(Chunk(event, PIECE_CHARS / amount) for event in events))
    return Reply((Chunk(b"".join(_events(anthropic, SHORT))),))


@functools.lru_cache(8)
def _text(size_bytes: int, mark: str) -> str:
    return document(size_bytes).replace("THE END", mark.replace("MARK", "DONE"))


if __name__ == "__main__":
    main()
