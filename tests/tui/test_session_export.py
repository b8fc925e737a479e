"""A session as a document: the same from the screen and from the command line, and fit to be looked at in a terminal."""

import json
from pathlib import Path

import pytest

from agent.store.base import SessionMeta
from agent.store.session_file import SessionFile
from agent.transcript import Entry, User
from providers.types import TextBlock
from tests.fakes.hostile import SENDABLE, leaks
from tests.tui.in_process import Place
from tui.launch.arguments import parse
from tui.launch.startup import starting
from tui.session_export import ExportError, export_session

ID = "20260101-000001-ab01"
TEXT = " ".join(f"x{sequence}y" for sequence in SENDABLE)


@pytest.fixture
def stored(place: Place) -> Place:
    store = SessionFile(place.home / "data" / "sessions" / f"{ID}.db", SessionMeta(ID, str(place.project), 1))
    store.append([Entry(1, None, 1_700_000_000_000, User((TextBlock(TEXT),)))])
    store.close()
    return place


def exported(place: Place, file: str) -> bytes:
    env = {"CLAW_HOME": str(place.home), "HOME": str(place.home)}
    with starting(parse([]), env, "test") as startup:
        assert str(place.project / file) in export_session(startup, ID, file)
        with pytest.raises(ExportError, match="exists already"):
            export_session(startup, ID, file)
    return (place.project / file).read_bytes()


@pytest.mark.parametrize(("file", "form"), [("out.md", "markdown"), ("out.json", "json")])
def test_T59_both_ways_give_the_same_document_and_no_control_stands_in_it(stored: Place, file: str, form: str) -> None:
    data = exported(stored, file)
    assert leaks(data) == []
    assert stored.claw("sessions", "export", "--format", form, ID).out.encode() == data
    assert stored.claw("sessions", "export", "--format", form, "--output", "other", ID).code == 0
    assert Path("other").read_bytes() == data


def test_a_session_in_which_nothing_was_said_has_no_document(place: Place) -> None:
    with (
        starting(parse([]), {"CLAW_HOME": str(place.home), "HOME": str(place.home)}, "test") as startup,
        pytest.raises(ExportError, match="nothing was said"),
    ):
        export_session(startup, ID, "out.md")
    assert not (place.project / "out.md").exists()


def test_json_has_the_text_to_the_character(stored: Place) -> None:
    [entry] = json.loads(exported(stored, "out.json"))["entries"]
    assert entry["payload"]["blocks"][0]["text"] == TEXT
