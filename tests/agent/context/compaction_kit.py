"""What the tests of compaction share: a model that answers from a list, talks of a known size, and ways to look at requests."""

from agent.context.compaction import Ask, Compacted, CompactionInputs, NotCompacted, Reply, compact
from agent.transcript import Compaction, Entry
from providers.base import ModelRequest
from providers.types import Message, TextBlock, ToolCall, ToolResultMessage, Usage
from tests.agent.context.talk import Talk

SUMMARY = (
    "## Goal\nRepair sum.\n## Constraints and preferences\nKeep the interface.\n## Progress\n### Done\nread\n"
    "## Key decisions\n(none)\n## Next steps\n1. test\n## Critical context\n(none)"
)


class Model:
    """Answers summary requests in turn and keeps them; the last answer is given again and again."""

    def __init__(self, *answers: str | Reply | BaseException) -> None:
        self._answers = list(answers or (SUMMARY,))
        self.requests: list[ModelRequest] = []

    async def __call__(self, request: ModelRequest) -> Reply:
        self.requests.append(request)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return Reply(answer, False, "end_turn", Usage(100, 0, 0, 20), 0.5) if isinstance(answer, str) else answer


def full(talk: Talk | None = None, turns: int = 12, words: int = 150) -> Talk:
    """About 430 tokens a turn by the estimate, with the default number of words."""
    talk = talk or Talk()
    for turn in range(turns):
        talk.user(f"USER-{turn} please")
        talk.reply(f"looking {turn}", (f"c{turn}",))
        talk.result(f"c{turn}", f"RESULT-{turn} " + "word " * words)
        talk.reply(f"answer {turn} " + "fact " * words)
    return talk


async def compacted(inputs: CompactionInputs, model: Ask | None = None) -> Compacted:
    outcome = await compact(inputs, model or Model())
    assert isinstance(outcome, Compacted), outcome
    return outcome


async def done(inputs: CompactionInputs, model: Ask | None = None) -> Compaction:
    return (await compacted(inputs, model)).compaction


def commit(talk: Talk, outcome: Compacted) -> Entry:
    """Append everything, as one transaction would."""
    entry, *_ = [talk.append(payload) for payload in outcome.payloads]
    return entry


async def refused(inputs: CompactionInputs, model: Ask) -> NotCompacted:
    """The outcome of a compaction that fails, which must leave everything as it was."""
    before = (list(inputs.branch), list(inputs.window.messages), inputs.meter.used())
    outcome = await compact(inputs, model)
    assert isinstance(outcome, NotCompacted)
    assert (list(inputs.branch), list(inputs.window.messages), inputs.meter.used()) == before
    return outcome


def only_text(request: ModelRequest) -> str:
    (message,) = request.messages
    (block,) = message.blocks
    assert isinstance(block, TextBlock)
    return block.text


def asked(request: ModelRequest) -> str:
    """The text that asks for the summary, in either form."""
    block = (request.extra or request.messages)[-1].blocks[0]
    assert isinstance(block, TextBlock)
    return block.text


def shared(request: ModelRequest) -> bool:
    return bool(request.extra)


def calls(messages: list[Message]) -> list[str]:
    return [block.id for message in messages for block in message.blocks if isinstance(block, ToolCall)]


def results(messages: list[Message]) -> list[str]:
    return [message.call_id for message in messages if isinstance(message, ToolResultMessage)]
