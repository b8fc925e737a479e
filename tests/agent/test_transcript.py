import pytest
from hypothesis import given

from agent.transcript import Entry, Rewind, Transcript, Undo, User, decode_payload, encode_payload, undone_keys
from providers.types import TextBlock
from tests.agent.strategies import transcripts


def user(text: str) -> User:
    return User((TextBlock(text),))


@given(transcripts())
def test_payloads_survive_their_encoding(transcript: Transcript) -> None:
    for entry in transcript.branch:
        assert decode_payload(encode_payload(entry.payload)) == entry.payload


def test_keys_grow_and_the_parent_is_the_head() -> None:
    transcript = Transcript()
    first = transcript.append(user("a"), 5)
    second = transcript.append(user("b"), 3)
    assert (first.key, first.parent, second.key, second.parent) == (1, None, 2, 1)
    assert transcript.head == 2


def test_a_rewind_leaves_the_branch_and_another_takes_it_back() -> None:
    transcript = Transcript()
    for text in "abc":
        transcript.append(user(text), 0)
    transcript.append(Rewind(), 0, parent=1)
    assert [entry.key for entry in transcript.branch] == [1, 4]
    transcript.append(Rewind(), 0, parent=3)
    assert [entry.key for entry in transcript.branch] == [1, 2, 3, 5]
    assert len(transcript) == 5


def test_undo_of_an_undo_is_redo() -> None:
    transcript = Transcript()
    transcript.append(user("a"), 0)
    undo = transcript.append(Undo((1,)), 0)
    assert undone_keys(transcript.branch) == {1}
    transcript.append(Undo((undo.key,)), 0)
    assert undone_keys(transcript.branch) == {undo.key}


@pytest.mark.parametrize("entry", [Entry(1, 1, 0, user("b")), Entry(9, 7, 0, user("b"))])
def test_entries_that_do_not_fit_are_refused(entry: Entry) -> None:
    transcript = Transcript([Entry(1, None, 0, user("a"))])
    with pytest.raises(ValueError, match=f"entry {entry.key}"):
        transcript.add(entry)
