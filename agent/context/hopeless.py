"""Where no summary can bring the window below the trigger: what fills it, and what helps, in words. No call is made then."""

from collections.abc import Iterable

from agent.context import tokens
from agent.context.compaction_values import CompactionInputs, NotCompacted
from agent.context.cut import message_groups
from providers.types import ToolSpec

_NAMED = 4
_MCP = "mcp__"


def hopeless(
    inputs: CompactionInputs, *, pins: int, newest: int, request: int = 0, final: bool = False
) -> NotCompacted:
    """Why a summary cannot help. In tokens: `pins`; `newest`, the newest message with its results; `request`, what the
    record has of the request in progress.

    It is not `final` where only a message is too large, since a later one may not be.
    """
    prefix, meter = inputs.window.prefix, inputs.meter
    counter = meter.counter
    shares = [(meter.calibrated(tokens.section_tokens(counter, s)), s.name) for s in prefix.sections]
    shares.extend((meter.calibrated(size), name) for name, size in _tool_shares(inputs, prefix.tools))
    shares.append((newest, "the newest message with its results"))
    shares.append((request, "your request in progress"))
    shares.append((pins, "pins"))
    shares.sort(key=lambda share: -share[0])
    biggest = ", ".join(f"{name} {size:,}" for size, name in shares[:_NAMED] if size)
    files = sorted(prefix.instruction_files, key=lambda file: -file.tokens)[:3]
    named = "".join(f"; instruction file {file.path} {file.tokens:,}" for file in files if file.tokens)
    limit = f"the trigger of {inputs.thresholds.trigger:,} tokens"
    if inputs.trigger == "overflow":
        limit = "what the provider takes"
    return NotCompacted(
        f"a summary cannot help: what always stays fills the window up to {limit}. "
        f"The biggest parts, in tokens: {biggest}{named}",
        True,
        final=final,
        remedy=_remedy([name for size, name in shares[:_NAMED] if size], _newest_key(inputs)),
    )


def _tool_shares(inputs: CompactionInputs, specs: Iterable[ToolSpec]) -> list[tuple[str, int]]:
    """claw's own tools together, and each MCP server's."""
    shares: dict[str, int] = {}
    for spec in specs:
        server = spec.name.removeprefix(_MCP).partition("__")[0] if spec.name.startswith(_MCP) else ""
        name = f"tools of MCP server {server}" if server else "tools"
        shares[name] = shares.get(name, 0) + tokens.tool_tokens(inputs.meter.counter, spec)
    return list(shares.items())


def _newest_key(inputs: CompactionInputs) -> int:
    groups = message_groups(inputs.window, inputs.meter.all_message_tokens())
    return groups[-1].first_key if groups else 0


def _remedy(names: list[str], newest: int) -> str:
    """What to do about the biggest parts, the biggest first."""
    steps = []
    for name in names:
        if name == "pins":
            steps.append("unpin something")
        elif name.startswith("tools of MCP"):
            steps.append(f"remove the {name.removeprefix('tools of ')}")
        elif name.startswith("instructions"):
            steps.append("shorten the instruction files or use --no-instructions")
        elif name.startswith("the newest"):
            steps.append(f"summarise the newest message too (/compact from {newest})")
        elif name.startswith("your request"):
            steps.append("take the request back (/undo) and give it as a file that is read piece by piece")
    steps.append("choose a model with a larger context window")
    text = ", or ".join(dict.fromkeys(steps))
    return f"{text[0].upper()}{text[1:]}."
