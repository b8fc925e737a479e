"""Print mode: from exec to the request at the server, against a bare program that imports the same SDK and posts."""

import statistics
import subprocess
import time

from tests.benchmarks.kit import CLAW, PYTHON, WIRES, ModelProcess, Place, compile_all, scratch, show

RUNS = 5
_BARE = {
    "anthropic": """
import asyncio, os, anthropic
async def main():
    client = anthropic.AsyncAnthropic(max_retries=0)
    body = b'{"model": "m", "max_tokens": 9, "stream": true, "messages": [{"role": "user", "content": "hello"}]}'
    await client.post("/v1/messages", cast_to=object, content=body, stream=True,
        options={"headers": {"content-type": "application/json"}}, stream_cls=anthropic.AsyncStream[object])
asyncio.run(main())
""",
    "openai": """
import asyncio, os, openai
async def main():
    client = openai.AsyncOpenAI(max_retries=0)
    body = b'{"model": "m", "input": [{"role": "user", "content": "hello"}], "stream": true, "store": false}'
    await client.post("/responses", cast_to=object, content=body, stream=True,
        options={"headers": {"content-type": "application/json"}}, stream_cls=openai.AsyncStream[object])
asyncio.run(main())
""",
}


def main() -> bool:
    compile_all()
    with ModelProcess() as server, scratch() as place:
        results = [_wire(server, place, wire) for wire in WIRES]
    return all(results)


def _wire(server: ModelProcess, place: Place, wire: str) -> bool:
    script = place.home / f"{wire}_bare.py"
    script.write_text(_BARE[wire])
    env = place.env(wire, server.url)

    def until(argv: list[str]) -> float:
        started = time.monotonic()
        subprocess.run(argv, cwd=place.project, env=env, check=True, capture_output=True, stdin=subprocess.DEVNULL)
        return server.served().arrived_s - started

    pairs = [(until([CLAW, "-p", "hello"]), until([PYTHON, str(script)])) for _ in range(RUNS)]
    ours, bare = (statistics.median(times) for times in zip(*pairs, strict=True))
    show(f"claw -p over {wire}: exec to request", ours, "s", note=f"the SDK alone {bare:.3f} s")
    ratio = statistics.median(a / b for a, b in pairs)
    return show("  ratio", ratio, "x", 1.15, f"best {min(a for a, _ in pairs):.3f} / {min(b for _, b in pairs):.3f} s")


if __name__ == "__main__":
    raise SystemExit(0 if main() else 1)
