from agent.context.render import PIECE_TOKENS, RenderedPiece, entry_index, pieces_of, render
from agent.context.tokens import estimate
from providers.types import (
    AssistantMessage,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)


def rendered(messages: list[Message], most: int = 1_000) -> str:
    return render(pieces(messages), most, estimate)


def pieces(messages: list[Message]) -> list[RenderedPiece]:
    keys = [(number,) for number in range(10, 10 + len(messages))]
    sizes = [estimate(str(message)) for message in messages]
    return [piece for found in pieces_of(messages, keys, sizes) for piece in found]


def test_a_transcript_is_rendered_with_keys_and_roles_without_images_and_thinking() -> None:
    messages: list[Message] = [
        UserMessage((TextBlock("fix it"), ImageBlock("image/png", "0" * 64))),
        AssistantMessage((ThinkingBlock("hm", "sig"), TextBlock("reading"), ToolCall("c", "read", '{"path": "a"}'))),
        ToolResultMessage("c", (TextBlock("def f(): ..."),)),
        ToolResultMessage("d", (TextBlock("no such file"),), is_error=True),
    ]
    assert rendered(messages) == (
        '[10] USER: fix it\n[image]\n\n[11] ASSISTANT: reading\n\n[11] CALL of read: {"path": "a"}\n\n'
        "[12] RESULT of read: def f(): ...\n\n[13] RESULT (ERROR): no such file"
    )


def test_what_the_program_filled_in_has_no_entry() -> None:
    filler = ToolResultMessage("c", (TextBlock("[No result]"),), True)
    ((piece,),) = pieces_of([filler], [()], [5])
    assert str(piece) == "RESULT (ERROR): [No result]"


def test_what_stands_for_an_entry_is_told_instead_of_it() -> None:
    result = ToolResultMessage("c", (TextBlock("LONG TEXT"),))
    ((piece,),) = pieces_of([result], [(7,)], [500], {7: ("RESULT of read", "(attached again)")})
    assert str(piece) == "[7] RESULT of read: (attached again)"
    assert piece.tokens < 20


def test_the_tokens_of_pieces_are_about_what_they_take_and_never_counted_anew() -> None:
    messages: list[Message] = [
        UserMessage((TextBlock("word " * 300),)),
        AssistantMessage((TextBlock("word " * 100), ToolCall("c", "read", '{"path": "' + "a" * 400 + '"}'))),
        AssistantMessage((ThinkingBlock("hm " * 5_000, "sig"), TextBlock("short"))),
        ToolResultMessage("c", (TextBlock("word " * 9_000),)),
    ]
    for piece in pieces(messages):
        assert piece.tokens <= PIECE_TOKENS
        shown = estimate(render([piece], PIECE_TOKENS, estimate))
        assert shown - 5 <= piece.tokens <= shown * 1.4 + 25


def test_a_long_transcript_is_cut_evenly_and_then_at_its_old_end() -> None:
    long: list[Message] = [ToolResultMessage("c", (TextBlock(f"{n} " + "word " * 4_000),)) for n in range(40)]
    even = rendered(long, 20_000)
    assert 15_000 < estimate(even) < 20_500
    assert all(f"RESULT: {n} word" in even for n in range(40))
    tiny = rendered(long, 400)
    assert estimate(tiny) < 450
    assert tiny.startswith("[30 older pieces of the transcript are left out here.]")
    assert "RESULT: 39 word" in tiny


def test_the_index_has_a_line_for_each_entry_and_the_oldest_and_newest_where_there_is_no_room() -> None:
    messages: list[Message] = [
        AssistantMessage((TextBlock(f"look\nat\t{n} " + "word " * 30), ToolCall("c", "read", "{}"))) for n in range(200)
    ]
    every = entry_index(pieces(messages), 100_000, estimate).splitlines()
    assert len(every) == 200
    assert every[0].startswith("[10] assistant: look at 0 word")
    assert every[0].endswith("…; call of read")
    short = entry_index(pieces(messages), 1_200, estimate)
    assert 1_000 < estimate(short) <= 1_200
    lines = short.splitlines()
    assert lines[0] == every[0]
    assert lines[-1] == every[-1]
    (between,) = (line for line in lines if line.startswith("(…"))
    assert between == f"(… {200 - len(lines) + 1} entries between these are not listed …)"
    assert entry_index([], 100, estimate) == ""
