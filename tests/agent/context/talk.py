"""A session's record without a store: transcript, window and meter in step, and a server that counts in its own way."""

from agent.context.budget import ContextSettings, Thresholds, thresholds
from agent.context.compaction import CompactionInputs, Trigger
from agent.context.meter import Meter
from agent.context.tokens import Counter, message_tokens, prefix_tokens
from agent.tools.details import CommandDetails
from agent.transcript import Assistant, Entry, FileFact, Payload, Prefix, Result, Setting, Transcript, User
from agent.window import Window
from providers.base import ModelRequest
from providers.models import ModelFacts
from providers.types import AssistantBlock, AssistantMessage, PromptSection, TextBlock, ToolCall, ToolSpec, Usage

TOOLS = (ToolSpec("read", "Reads a file.", {"type": "object", "properties": {"path": {"type": "string"}}}),)


def facts(window: int = 8_192, cap: int = 4_096, efforts: tuple[str, ...] = ()) -> ModelFacts:
    return ModelFacts(
        id="m",
        provider="p",
        api="anthropic",
        family="m",
        context_window_tokens=window,
        max_output_tokens=cap,
        efforts=efforts,  # type: ignore[arg-type]  # plain strings keep the tests short
    )


def limits(window: int = 8_192, cap: int = 4_096, settings: ContextSettings | None = None, **env: str) -> Thresholds:
    return thresholds(facts(window, cap), settings or ContextSettings(), env)


class Talk:
    """Appends to transcript, window and meter together, as the recorder does."""

    def __init__(self, counter: Counter | None = None, system: str = "You are claw.") -> None:
        self.transcript = Transcript()
        self.window = Window()
        self.meter = Meter(counter or Counter())
        self.now_ms = 0
        self.append(Setting(provider="p", model="m", family="m", api="anthropic"))
        self.append(Prefix((PromptSection("identity", system, True),), TOOLS))

    @property
    def branch(self) -> list[Entry]:
        return list(self.transcript.branch)

    def append(self, payload: Payload) -> Entry:
        entry = self.transcript.append(payload, self.now_ms)
        broke = self.window.apply(self.transcript.branch, entry)
        self.meter.apply(entry, self.window, broke=broke)
        return entry

    def user(self, text: str) -> int:
        return self.append(User((TextBlock(text),))).key

    def reply(
        self,
        text: str = "",
        calls: tuple[str, ...] = (),
        usage: Usage = Usage(),  # noqa: B008  # frozen
        extra: tuple[AssistantBlock, ...] = (),
        tool: str = "read",
        interrupted: bool = False,
    ) -> int:
        blocks = (*extra, *((TextBlock(text),) if text else ()), *(ToolCall(i, tool, '{"path": "a"}') for i in calls))
        return self.append(
            Assistant(blocks, "p", "m", "anthropic", "m", None, usage, "end_turn", interrupted=interrupted)
        ).key

    def result(self, call_id: str, text: str, tool: str = "read", files: tuple[FileFact, ...] = ()) -> int:
        return self.append(Result(call_id, tool, (TextBlock(text),), files=files)).key

    def command(self, call_id: str, command: str, exit_code: int, output: str = "") -> int:
        details = CommandDetails(command, output, exit_code, 5)
        text = output or f"exit code {exit_code}"
        return self.append(Result(call_id, "bash", (TextBlock(text),), exit_code != 0, details=details)).key

    def step(self, name: str, result: str, tool: str = "read") -> tuple[int, int]:
        """A reply with one call, and its result."""
        return self.reply(f"step {name}", (name,), tool=tool), self.result(name, result, tool)

    def request(self) -> ModelRequest:
        window = self.window
        return ModelRequest(
            "m",
            window.prefix.sections,
            window.prefix.tools,
            window.messages,
            window.generation,
            window.stable,
            4_096,
            cache_key="s",
            sent_before=3,
        )

    def inputs(
        self,
        trigger: Trigger = "auto",
        window: int = 8_192,
        focus: str = "",
        settings: ContextSettings | None = None,
        efforts: tuple[str, ...] = (),
        request: ModelRequest | None = None,
        **env: str,
    ) -> CompactionInputs:
        settings = settings or ContextSettings()
        return CompactionInputs(
            self.transcript.branch,
            self.window,
            self.meter,
            thresholds(facts(window), settings, env),
            settings,
            facts(window, efforts=efforts),
            request or self.request(),
            trigger,
            focus,
        )


class Server:
    """Counts like a model whose tokenizer makes `factor` tokens of one of o200k_base, and wraps messages in its own way."""

    def __init__(self, counter: Counter, factor: float, overhead: int = 7) -> None:
        self._counter = counter
        self._factor = factor
        self._overhead = overhead

    def prompt(self, window: Window) -> int:
        total = prefix_tokens(self._counter, window.prefix.sections, window.prefix.tools) + 250
        total += sum(message_tokens(self._counter, m) - 4 + self._overhead for m in window.sealed())
        return round(total * self._factor)

    def output(self, blocks: tuple[AssistantBlock, ...]) -> int:
        return round((message_tokens(self._counter, AssistantMessage(blocks)) - 4 + self._overhead) * self._factor)


def texts(window: Window) -> str:
    """All text of a window, for looking things up in it."""
    return "\n".join(
        block.text for message in window.messages for block in message.blocks if isinstance(block, TextBlock)
    )
