"""Which results say nothing that the window does not say elsewhere: superseded reads and repeated identical failures.

Pure. They give way to a line that names the entry which says it now. What was not sent yet stays.
"""

from collections.abc import Collection, Iterator, Sequence

from agent.context.clearing import LEAST_GAIN_TOKENS, Freeing
from agent.context.meter import Meter
from agent.context.superseded import ByKey, results_in, superseded, superseded_text
from agent.transcript import ClearedItem, Clearing, Entry, Result
from agent.window import Window
from providers.types import AssistantMessage, TextBlock, ToolCall

_Results = list[tuple[int, Entry, Result]]


def snip(branch: Sequence[Entry], window: Window, meter: Meter, spared: Collection[int] = ()) -> Freeing | None:
    """Replace them, in one batch. `spared`: keys of entries that stay as they are."""
    results = list(results_in(window, ByKey(branch).get))
    sent = {entry.key for index, entry, _ in results if index < window.stable}
    items: list[ClearedItem] = []
    freed = 0
    for key, text in sorted({**dict(_old_copies(results)), **dict(_repeated_failures(window, results))}.items()):
        gain = meter.own_tokens(key) - meter.count(text)
        if key in sent and key not in spared and gain >= LEAST_GAIN_TOKENS:
            items.append(ClearedItem(key, text))
            freed += gain
    return Freeing(Clearing(tuple(items), "snip"), freed) if items else None


def _old_copies(results: _Results) -> Iterator[tuple[int, str]]:
    for copy in superseded([entry for _, entry, _ in results]):
        yield copy.key, superseded_text(copy)


def _repeated_failures(window: Window, results: _Results) -> Iterator[tuple[int, str]]:
    """All but the newest of those with the same tool, arguments and error."""
    arguments = {
        block.id: block.arguments
        for message in window.messages
        if isinstance(message, AssistantMessage)
        for block in message.blocks
        if isinstance(block, ToolCall)
    }
    newest: dict[tuple[str, str, str], int] = {}
    for _, entry, result in reversed(results):
        if not result.is_error:
            continue
        text = "\n".join(block.text for block in result.blocks if isinstance(block, TextBlock))
        failure = (result.tool, arguments.get(result.call_id, ""), text)
        if (same := newest.setdefault(failure, entry.key)) != entry.key:
            yield entry.key, f"[Failed with the same error as entry {same}, which shows it]"
