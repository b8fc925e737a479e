"""What a task of thirty tiny reads sends: input tokens over all its requests, and those that no prefix cache can cover.

The real agent with the real SDK client; tokens are o200k's of what the server received, without the JSON around it.
"""

import asyncio
import json
import tempfile
from pathlib import Path
from typing import Any

from agent.context.tokens import Counter
from tests.benchmarks.kit import compile_all, show
from tests.fakes.model_server import ModelServer
from tests.fakes.session_kit import Desk
from tests.fakes.wires import AnthropicSide, ResponsesSide

READS = 30
MOST_TOKENS = 130_000
MOST_UNCACHED_TOKENS = 5_000


def main() -> bool:
    compile_all()
    results = [asyncio.run(_measure(side)) for side in (AnthropicSide, ResponsesSide)]
    return all(results)


async def _measure(side: type[AnthropicSide] | type[ResponsesSide]) -> bool:
    with ModelServer() as server, tempfile.TemporaryDirectory() as folder:
        desk = Desk(side(server), Path(folder) / "project", Path(folder) / "home")
        desk.project.mkdir()
        for number in range(READS):
            (desk.project / f"part_{number}.py").write_text(f"value = {number}\n")
            desk.wire.reply(tools=[("read", {"path": f"part_{number}.py"})])
        desk.wire.reply("All are read.")
        async with desk.open() as talk:
            ended = await talk.session.prompt("Read part_0.py to part_29.py one by one and say when you are done.")
            assert ended.reason == "done"
        requests = [desk.wire.flat(body) for body in desk.bodies()]
    counter = Counter()
    counter.load()
    total = uncached = 0
    before: list[Any] = []
    for request in requests:
        sizes = [_tokens(counter, block) for _, block in request]
        common = next((n for n, (a, b) in enumerate(zip(before, request, strict=False)) if a != b), len(before))
        total += sum(sizes)
        uncached += sum(sizes[common:])
        before = request
    first = sum(_tokens(counter, block) for _, block in requests[0])
    name = f"{side.provider}: {READS} tiny reads,"
    good = show(f"{name} input tokens of all requests", total, "tok", MOST_TOKENS, f"the first has {first:,}")
    return show("  of these not coverable by a prefix cache", uncached, "tok", MOST_UNCACHED_TOKENS) and good


def _tokens(counter: Counter, block: Any) -> int:
    """A text by itself, a tool's specification as JSON, anything else by its texts and names."""
    if isinstance(block, str):
        return counter.count(block)
    if "parameters" in block or "input_schema" in block:
        return counter.count(json.dumps(block, ensure_ascii=False, separators=(",", ":")))
    return sum(counter.count(text) for text in _texts(block)) + 4


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        kept = [item for key, item in value.items() if key not in ("type", "id", "tool_use_id", "call_id", "status")]
        return [text for item in kept for text in _texts(item)]
    return [text for item in value for text in _texts(item)] if isinstance(value, list) else []


if __name__ == "__main__":
    raise SystemExit(0 if main() else 1)
