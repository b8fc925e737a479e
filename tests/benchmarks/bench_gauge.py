"""How well the gauge foretells the next request, on servers whose tokenizer differs from ours, with Chinese and with images.

The real agent with the real SDK clients reads files against a local server that counts what it gets: texts with o200k_base
times a factor, with wrappings of its own, images by the provider's formula. After three reported steps what the gauge shows
when a request leaves is compared with what the server counts in it, in the middle behind a compaction too.
"""

import asyncio
import base64
import io
import json
import math
import random
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from PIL import Image

from agent.context.tokens import Counter
from agent.events import Event, StepStarted
from tests.benchmarks.kit import compile_all, quantile, show
from tests.fakes.anthropic_wire import MESSAGES, MessageStream
from tests.fakes.model_server import ModelServer, RecordedRequest, Reply
from tests.fakes.responses_wire import RESPONSES, ResponseStream
from tests.fakes.session_kit import Desk, Talk
from tests.fakes.wires import AnthropicSide, ResponsesSide

FACTORS = (0.8, 1.0, 1.2, 1.35)
MEDIAN, WORST = 0.02, 0.05
_TURNS = 6
_STEPS = 8
_REPORTED = 3
_ENGLISH = "The function joins strings where it should add numbers, so the test for negative values still fails. "
_CHINESE = "修复求和函数，保持公共接口不变，并运行测试验证，负数用例仍然失败。"
_CODE = "def total(a, b):\n    return int(a) + int(b)  # strings come from the form\n"
_SUMMARY = "\n\n".join(
    f"## {name}\n\n{_ENGLISH}"
    for name in (
        "Goal",
        "Constraints and preferences",
        "Progress",
        "Key decisions",
        "Next steps",
        "Critical context",
    )
)
_SIZES = ((1_200, 900), (1_568, 700), (400, 300), (3_000, 2_000))


def main() -> bool:
    compile_all()
    counter = Counter()
    counter.load()
    good = True
    for side in (AnthropicSide, ResponsesSide):
        for factor in FACTORS:
            for pictures in (False, True):
                good &= _told(side, factor, pictures, asyncio.run(_measure(side, factor, pictures, counter)))
    return good


def _told(side: type[AnthropicSide] | type[ResponsesSide], factor: float, pictures: bool, errors: list[float]) -> bool:
    name = f"{side.provider} × {factor}{', with images' if pictures else ''}"
    note = f"n {len(errors)}, 90 % under {quantile(errors, 0.9) * 100:.2f} %"
    good = show(f"{name}: median error", statistics.median(errors) * 100, "%", MEDIAN * 100, note)
    return show(f"{name}: worst error", max(errors) * 100, "%", WORST * 100) and good


async def _measure(
    side: type[AnthropicSide] | type[ResponsesSide], factor: float, pictures: bool, counter: Counter
) -> list[float]:
    """The relative error of each prediction behind the first three reported steps."""
    with tempfile.TemporaryDirectory() as folder, ModelServer() as server:
        project = Path(folder) / "project"
        project.mkdir()
        files = _write_files(project, random.Random(1), pictures)
        wire = side(server)
        if isinstance(wire, ResponsesSide):
            wire.model = "gpt-5"  # its image formula is published
        desk = Desk(wire, project, Path(folder) / "home", window_tokens=10_000_000)
        config = desk.home / "config" / "config.toml"
        config.write_text(config.read_text() + "images = true\n")
        counting = _CountingServer(wire, factor, counter, files)
        server.always(MESSAGES, counting.answer)
        server.always(RESPONSES, counting.answer)
        async with desk.open(listener=_Predicting) as talk:
            assert isinstance(talk, _Predicting)
            for turn in range(_TURNS):
                if turn == _TURNS // 2:  # from here on nothing of what was reported before measures the window
                    assert (await talk.session.compact()).key is not None
                await talk.session.prompt(f"Task {turn}: {(_ENGLISH, _CHINESE)[turn % 2] * (1 + turn)}")
        pairs = zip(talk.predicted, counting.counted, strict=True)
        return [abs(predicted - counted) / counted for predicted, counted in pairs][_REPORTED:]


class _Predicting(Talk):
    """Notes what the gauge shows whenever a request leaves."""

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self.predicted: list[int] = []

    def take(self, event: Event) -> None:
        if isinstance(event, StepStarted):
            self.predicted.append(self.session.gauge().used_tokens)
        super().take(event)


def _write_files(project: Path, pick: random.Random, pictures: bool) -> list[str]:
    names = []
    for number in range(_TURNS * _STEPS * 2):
        if pictures and number % 6 == 5:
            name = f"shot{number}.png"
            Image.new("RGB", pick.choice(_SIZES), (number % 256, 90, 10)).save(project / name)
        else:
            name = f"file{number}.txt"
            words = pick.choice((_ENGLISH + "\n", _CHINESE + "\n", _CODE, _CHINESE + _ENGLISH + "\n"))
            (project / name).write_text(words * pick.randint(1, 60))
        names.append(name)
    return names


# --------------------------------------------------------------------------- the server


class _CountingServer:
    """Answers with reads of one to three files until a turn has had its steps, and counts in its own way."""

    def __init__(self, wire: AnthropicSide | ResponsesSide, factor: float, counter: Counter, files: list[str]) -> None:
        self.counted: list[int] = []
        self._wire = wire
        self._factor = factor
        self._counter = counter
        self._files: Iterator[str] = iter(files)
        self._pick = random.Random(2)

    def answer(self, request: RecordedRequest) -> Reply:
        prompt = self._prompt_tokens(request.json)
        if self._wire.is_summary(request.json):
            return self._reply(_SUMMARY, [], prompt)
        self.counted.append(prompt)
        more = len(self.counted) % _STEPS != 0
        words = self._pick.choice((_ENGLISH, _CHINESE)) * self._pick.randint(1, 4)
        names = [next(self._files) for _ in range(self._pick.randint(1, 2))] if more else []
        return self._reply(words, [("read", {"path": name}) for name in names], prompt)

    def _reply(self, words: str, calls: list[tuple[str, Any]], prompt: int) -> Reply:
        texts = [words, *(json.dumps(arguments) for _, arguments in calls)]
        output = round((sum(map(self._tokens, texts)) + 20 * len(calls)) * self._factor)
        cached = prompt * 9 // 10
        if isinstance(self._wire, AnthropicSide):
            usage = {"input_tokens": prompt - cached, "cache_read_input_tokens": cached, "output_tokens": output}
            stream = MessageStream(self._wire.model, usage).text(words)
            for call in calls:
                stream.tool(*call)
            return stream.stop("tool_use" if calls else "end_turn").reply_at_once()
        details = {"cached_tokens": cached}
        usage_of = {"input_tokens": prompt, "input_tokens_details": details, "output_tokens": output}
        answer = ResponseStream(self._wire.model, usage_of).text(words)
        for call in calls:
            answer.tool(*call)
        return answer.complete().reply_at_once()

    def _prompt_tokens(self, body: Any) -> int:
        text, images = 350, 0
        for role, block in self._wire.flat(body):
            text += 9 if role in ("user", "assistant", "result") else 3
            for part in _parts(block):
                if isinstance(part, str):
                    text += self._tokens(part)
                else:
                    images += self._image_tokens(*part)
        return round(text * self._factor) + images

    def _image_tokens(self, width: int, height: int) -> int:
        if isinstance(self._wire, AnthropicSide):
            return min(1_600, math.ceil(width * height / 750))
        scale = min(1.0, 2_048 / max(width, height))
        scale *= min(1.0, 768 / (min(width, height) * scale))
        return 70 + 140 * math.ceil(round(width * scale) / 512) * math.ceil(round(height * scale) / 512)

    def _tokens(self, text: str) -> int:
        return self._counter.count(text)


def _parts(block: Any) -> Iterator[str | tuple[int, int]]:
    """The texts of a block as sent, and the sizes of its images."""
    if isinstance(block, str):
        yield block
    elif isinstance(block, list):
        for item in block:
            yield from _parts(item)
    elif block.get("type") in ("image", "input_image"):
        data = block["source"]["data"] if "source" in block else block["image_url"].partition(",")[2]
        yield Image.open(io.BytesIO(base64.b64decode(data))).size
    elif block.get("type") in ("text", "input_text", "output_text"):
        yield block["text"]
    elif block.get("type") == "tool_result":
        yield from _parts(block["content"])
    elif block.get("type") == "function_call_output":
        yield from _parts(block["output"])
    elif block.get("type") == "tool_use":
        yield block["name"] + json.dumps(block["input"], ensure_ascii=False)
    elif block.get("type") == "function_call":
        yield block["name"] + block["arguments"]
    else:
        yield json.dumps(block, ensure_ascii=False)


if __name__ == "__main__":
    raise SystemExit(0 if main() else 1)
