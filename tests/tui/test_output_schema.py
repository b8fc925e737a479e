"""`--output-schema`: the answer fits, or the run says why it does not."""

import json
from pathlib import Path
from typing import Any

import pytest

from providers.types import Usage
from tests.fakes.claw_process import run
from tests.fakes.session_kit import Desk
from tests.tui.in_process import Place
from tests.tui.print_kit import answer
from tui.headless.output_schema import load_schema
from tui.launch.startup import SetupError

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "size": {"type": "integer", "minimum": 0}},
    "required": ["name", "size"],
    "additionalProperties": False,
}
GOOD = '{"name": "größe", "size": 3}'


def written(folder: Path, schema: Any) -> Path:
    path = folder / "schema.json"
    path.write_text(json.dumps(schema))
    return path


async def test_an_answer_that_fits_is_the_result(desk: Desk, tmp_path: Path) -> None:
    desk.wire.reply("I look.", tools=[("glob", {"pattern": "*"})])
    desk.wire.reply(f"```json\n{GOOD}\n```\n")
    path = written(tmp_path, SCHEMA)
    done = await run(desk, "-p", "How big?", "-m", desk.model, "--output-schema", str(path))
    assert (done.code, done.out, done.err) == (0, GOOD + "\n", "")
    (asked,) = (text for text in desk.wire.texts(desk.bodies()[0]) if "How big?" in text)
    assert asked.startswith("How big?\n\n") and json.dumps(SCHEMA) in asked


async def test_one_that_does_not_is_asked_for_once_more_with_the_reasons(
    desk: Desk, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.wire.reply('{"name": 1}', usage=Usage(100, output_tokens=10))
    desk.wire.reply(GOOD, usage=Usage(200, output_tokens=20))
    done = await answer(desk, capsys, "How big?", schema=load_schema(written(tmp_path, SCHEMA)))
    assert (done.code, done.err, done.result["result"], done.result["turns"]) == (0, "", GOOD, 2)
    assert (done.result["usage"]["input"], done.result["is_error"]) == (300, False)
    again = desk.wire.texts(desk.bodies()[1])[-1]
    assert "$.name: 1 is not of type 'string'" in again and "'size' is a required property" in again


async def test_then_it_ends_with_1_and_the_reason(
    desk: Desk, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.wire.reply("It is big.")
    desk.wire.reply('{"name": "x", "size": -1}')
    done = await answer(desk, capsys, "How big?", schema=load_schema(written(tmp_path, SCHEMA)))
    assert done.code == 1 and "$.size: -1 is less than the minimum of 0" in done.err
    assert (done.result["stop_reason"], done.result["is_error"]) == ("bad_answer", True)
    assert done.result["result"] == '{"name": "x", "size": -1}'
    assert len(desk.bodies()) == 2


async def test_a_limit_is_a_limit_and_no_bad_answer(
    desk: Desk, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.wire.reply("Wait.", tools=[("glob", {"pattern": "*"})])
    done = await answer(desk, capsys, "go", schema=load_schema(written(tmp_path, SCHEMA)), max_turns=1)
    assert (done.code, done.result["stop_reason"]) == (4, "max_turns") and len(desk.bodies()) == 1


def test_a_schema_that_cannot_be_used_ends_with_2_before_anything_else(place: Place) -> None:
    path = written(place.project, {"type": "objekt"})
    done = place.claw("-p", "go", "--output-schema", str(path))
    assert (done.code, done.out) == (2, "") and "$.type" in done.err and len(done.err.splitlines()) == 2


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b'{"minimum": NaN}', "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[1]", "not an object"),
        (b"true", "not an object"),
        (b"[" * 100_000, "not JSON"),
        (b" " * (1 << 20) + b"{}", "larger than 1 MiB"),
        (b'{"properties": []}', "$.properties"),
        (b'{"$ref": "#/$defs/lost"}', "'#/$defs/lost', which is not in it"),
        (b'{"$ref": "other.json"}', "'other.json', which is not in it"),
        (b'{"items": {"$ref": "https://example.org/s"}}', "which is not in it"),
        (b'{"$ref": "file:///etc/passwd"}', "which is not in it"),
    ],
    ids=range(13),
)
def test_every_unusable_schema_is_told_with_its_file(tmp_path: Path, content: bytes, told: str) -> None:
    path = tmp_path / "schema.json"
    path.write_bytes(content)
    with pytest.raises(SetupError) as caught:
        load_schema(path)
    assert str(path) in str(caught.value) and told in str(caught.value)


@pytest.mark.parametrize("name", ["nothing", "/dev/zero", "."])
def test_what_is_no_file_is_told(tmp_path: Path, name: str) -> None:
    with pytest.raises(SetupError, match="JSON Schema"):
        load_schema(tmp_path / name)


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/a", "$defs": {"a": {"type": "integer"}}},
        {"$id": "https://me/x", "$ref": "inner", "$defs": {"a": {"$id": "inner", "type": "integer"}}},
        {"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"a": {}}, "allOf": [{"$ref": "#/definitions/a"}],
         "type": "integer"},
        {"$schema": "http://json-schema.org/draft-04/schema#", "type": "integer"},
        {"prefixItems": [True], "type": "integer"},
    ],
)  # fmt: skip
def test_every_draft_and_references_within_the_file_are_understood(tmp_path: Path, schema: Any) -> None:
    fits = load_schema(written(tmp_path, schema)).fit
    assert fits(" 3\n").text == "3" and not fits("3").errors and fits('"3"').errors


@pytest.mark.parametrize(
    "answer",
    ["", "\n", "3 apples", "NaN", "Infinity", "3 4", "{'a': 1}", "[" * 9999, "```json\n3", "I think:\n```json\n3\n```", "\x00"],
    ids=range(11),
)  # fmt: skip
def test_what_is_no_json_never_fits_and_stays_as_it_was(tmp_path: Path, answer: str) -> None:
    fit = load_schema(written(tmp_path, {})).fit(answer)
    assert fit.errors and fit.text == answer and all(len(error) <= 300 for error in fit.errors)


def test_many_errors_are_shortened(tmp_path: Path) -> None:
    schema = load_schema(written(tmp_path, {"items": {"enum": ["x" * 1000]}}))
    errors = schema.fit(json.dumps(list(range(50)))).errors
    assert len(errors) == 11 and errors[-1] == "and 40 more" and all(len(error) <= 300 for error in errors)
    assert all(error in schema.again(errors) for error in errors)
