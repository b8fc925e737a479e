"""The whole agent: images that it reads are sent, counted, and taken out where the provider refuses them."""

import base64
import io
from typing import Any

from PIL import Image

from agent.transcript import Clearing, Result
from providers.types import ImageBlock
from tests.fakes.anthropic_wire import MESSAGES, error_reply
from tests.fakes.model_server import json_reply
from tests.fakes.responses_wire import RESPONSES
from tests.fakes.session_kit import Desk
from tests.fakes.wires import AnthropicSide


def save_picture(desk: Desk, size: tuple[int, int] = (3_000, 1_000)) -> None:
    Image.new("RGB", size, "blue").save(desk.project / "shot.png")
    config = desk.home / "config" / "config.toml"
    config.write_text(config.read_text().replace("max_output_tokens", "images = true\nmax_output_tokens", 1))


def pictures(value: Any) -> list[bytes]:
    """The bytes of all images in a request's body, wherever they stand."""
    if isinstance(value, list):
        return [data for item in value for data in pictures(item)]
    if not isinstance(value, dict):
        return []
    if value.get("type") == "base64":
        return [base64.b64decode(value["data"])]
    if value.get("type") in ("input_image", "image_url"):
        url = value["image_url"] if isinstance(value["image_url"], str) else value["image_url"]["url"]
        return [base64.b64decode(url.partition(",")[2])]
    return [data for item in value.values() for data in pictures(item)]


async def test_an_image_that_is_read_is_sent_scaled_and_again_after_a_resume(desk: Desk) -> None:
    save_picture(desk)
    desk.wire.reply(tools=[("read", {"path": "shot.png"})])
    desk.wire.reply("It is blue.")
    async with desk.open() as talk:
        await talk.session.prompt("look at shot.png")
        assert talk.ended.reason == "done"
        kinds = {part.kind: part.tokens for part in talk.session.parts()}
        assert kinds["images"] >= 400
    desk.wire.reply("Still blue.")
    async with desk.open(talk.path) as resumed:
        await resumed.session.prompt("and now?")
    for body in desk.bodies()[1:]:
        (data,) = pictures(body)
        edge = 1_568 if isinstance(desk.wire, AnthropicSide) else 2_048
        assert max(Image.open(io.BytesIO(data)).size) == edge
    (result,) = desk.payloads(Result)
    assert isinstance(result.blocks[1], ImageBlock)
    assert "[Image shot.png, " in str(result.blocks[0])


async def test_an_image_that_the_provider_refuses_is_taken_out_and_the_request_is_sent_once_more(desk: Desk) -> None:
    save_picture(desk)
    desk.wire.reply(tools=[("read", {"path": "shot.png"})])
    text = "image exceeds 5 MB maximum: 6291456 bytes > 5242880 bytes"
    if isinstance(desk.wire, AnthropicSide):
        desk.wire.server.queue(MESSAGES, error_reply(400, "invalid_request_error", text))
    else:
        desk.wire.server.queue(
            RESPONSES, json_reply({"error": {"message": text, "type": "invalid_request_error"}}, 400)
        )
    desk.wire.reply("I could not see it.")
    async with desk.open() as talk:
        await talk.session.prompt("look at shot.png")
        assert talk.ended.reason == "done"
        assert talk.answer == "I could not see it."
    sent = [pictures(body) for body in desk.bodies()]
    assert [len(each) for each in sent] == [0, 1, 0]
    assert "An image was here and was taken out: shot.png" in str(desk.bodies()[-1])
    (clearing,) = desk.payloads(Clearing)
    assert clearing.reason == "budget"


async def test_a_model_that_sees_no_images_gets_an_error_instead(desk: Desk) -> None:
    save_picture(desk)
    config = desk.home / "config" / "config.toml"
    config.write_text(config.read_text().replace("images = true", "images = false"))
    desk.wire.reply(tools=[("read", {"path": "shot.png"})])
    desk.wire.reply("I see nothing.")
    async with desk.open() as talk:
        await talk.session.prompt("look at shot.png")
        assert talk.results[0].is_error
    assert pictures(desk.bodies()[-1]) == []


async def test_K8_a_file_that_stands_in_the_window_is_not_sent_a_second_time(desk: Desk) -> None:
    (desk.project / "a.py").write_text("".join(f"line {n} of the file\n" for n in range(60)))
    for _ in range(3):
        desk.wire.reply(tools=[("read", {"path": "a.py"})])
    desk.wire.reply("Read.")
    async with desk.open() as talk:
        await talk.session.prompt("read it three times")
        first, second, third = (finished.text for finished in talk.results)
    assert "59\tline 58" in first
    assert second == third
    assert second.startswith("[Unchanged since you read it (entry ")
    assert str(desk.bodies()[-1]).count("line 58 of the file") == 1
    async with desk.open(talk.path) as resumed:
        desk.wire.reply(tools=[("read", {"path": "a.py"})])
        desk.wire.reply("Read.")
        await resumed.session.prompt("again")
        assert resumed.results[0].text == second
        (desk.project / "a.py").write_text("other\n")
        desk.wire.reply(tools=[("read", {"path": "a.py"})])
        desk.wire.reply("Read.")
        await resumed.session.prompt("again")
        assert resumed.results[1].text == "1\tother"
