import base64
import io
import json
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from PIL import Image

from agent.images import ImageLimits
from agent.permissions.workspace import Workspace
from agent.processes import Spawner
from agent.tools.base import ToolContext, ToolError, ToolOutput
from agent.tools.details import TextDetails
from agent.tools.edit import Edit
from agent.tools.read import Read, ReadParams
from agent.tools.read_notebook import MOST_IMAGES
from agent.transcript import FileFact
from tests.agent.tools.file_calls import Calls

LIMITS = ImageLimits(200, 1_000_000)


def picture(width: int = 300) -> str:
    buffer = io.BytesIO()
    Image.new("RGB", (width, 100), "red").save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue()).decode()


def code(source: str | list[str], *outputs: dict[str, Any], run: int | None = 1) -> dict[str, Any]:
    return {"cell_type": "code", "execution_count": run, "source": source, "metadata": {}, "outputs": list(outputs)}


def stream(text: str | list[str]) -> dict[str, Any]:
    return {"output_type": "stream", "name": "stdout", "text": text}


def bundle(**data: Any) -> dict[str, Any]:
    return {"output_type": "display_data", "data": {kind.replace("_", "/"): value for kind, value in data.items()}}


def save(root: Path, *cells: dict[str, Any], name: str = "a.ipynb") -> Path:
    content = {"nbformat": 4, "metadata": {"language_info": {"name": "python"}}, "cells": list(cells)}
    (root / name).write_text(json.dumps(content))
    return root / name


async def read(
    root: Path, limits: ImageLimits | None = LIMITS, known: dict[str, FileFact] | None = None, **params: Any
) -> ToolOutput:
    spawner = cast(Spawner, None)  # no file tool uses it
    context = ToolContext("c", Workspace(root, root), spawner, known or {}, lambda text: None, image_limits=limits)
    return await Read().run(msgspec.convert({"path": "a.ipynb", **params}, ReadParams), context)


def body(output: ToolOutput) -> list[str]:
    """The lines without their numbers and the first, which says what it is."""
    return [line.partition("\t")[2] or line for line in output.text.split("\n")][1:]


async def test_a_notebook_is_shown_as_its_cells_with_their_outputs(tmp_path: Path) -> None:
    error = {"output_type": "error", "ename": "E", "evalue": "v", "traceback": ["\x1b[31mTraceback\x1b[0m", "  E: v"]}
    save(
        tmp_path,
        {"cell_type": "markdown", "source": ["# Title\n", "text"], "attachments": {"x.png": {}}},
        code("import x\nx.run()", stream(["a\n", "b\n"]), bundle(text_html="<b>x</b>", text_plain="<X>"), run=3),
        code([], bundle(text_html="<b>x</b>"), error, run=None),
        {"cell_type": "raw", "source": "as it is"},
    )
    output = await read(tmp_path)
    assert output.text.startswith("1\t--- notebook: 4 cells, python; lines are counted in this view; edit and write")
    assert body(output) == [
        "--- cell 1: markdown", "# Title", "text", "[1 attached: x.png]",
        "--- cell 2: code, run 3", "import x", "x.run()", "--- output of cell 2", "a", "b", "<X>",
        "--- cell 3: code", "--- output of cell 3", "[text/html, 8 characters, not shown]", "Traceback", "  E: v",
        "--- cell 4: raw", "as it is",
    ]  # fmt: skip
    assert output.details == TextDetails("4 cells")


async def test_offset_and_limit_count_lines_of_the_view(tmp_path: Path) -> None:
    save(tmp_path, code("\n".join(f"x = {n}" for n in range(10))))
    output = await read(tmp_path, offset=4, limit=2)
    assert output.text == "4\tx = 1\n5\tx = 2\n[lines 4-5 of 12; go on with offset 6]"
    with pytest.raises(ToolError, match=r"The view of a\.ipynb has 12 lines; offset 13 is behind its end"):
        await read(tmp_path, offset=13)


async def test_pictures_are_shown_as_far_as_they_stand_in_the_window(tmp_path: Path) -> None:
    cells = [code(f"plot({n})", bundle(image_png=picture(300 + n), text_plain="<Figure>")) for n in range(6)]
    save(tmp_path, *cells)
    output = await read(tmp_path)
    assert len(output.images) == len(output.blobs) == MOST_IMAGES
    assert output.text.count("[image: image/png, about ") == 6
    assert "[Image a.ipynb cell 4, 200×66 pixels, scaled down from 303×100]" in output.text
    assert output.text.endswith("[2 more images; read a smaller part to see them]")
    part = await read(tmp_path, offset=6, limit=5)
    (image,) = part.images
    assert image.sha256 == part.blobs[0].sha256 == output.images[1].sha256


async def test_a_model_that_sees_no_images_and_a_damaged_image_are_said(tmp_path: Path) -> None:
    save(tmp_path, code("x", bundle(image_png="no picture at all"), bundle(image_png=["cut"])))
    output = await read(tmp_path)
    assert output.images == () and output.text.endswith("\n[2 images cannot be shown]")
    blind = await read(tmp_path, limits=None)
    assert blind.images == () and blind.text.endswith("\n[this model sees no images]")


async def test_long_outputs_are_cut_in_their_middle_and_long_lines_at_their_end(tmp_path: Path) -> None:
    save(tmp_path, code("x = 1", stream("".join(f"line {n}\n" for n in range(5_000))), stream("y" * 50_000)))
    output = await read(tmp_path)
    assert "line 0" in output.text and "line 4999" in output.text and "line 2500" not in output.text
    assert output.text.count("characters of this output left out …]") == 2 and len(output.text) < 10_000
    save(tmp_path, code("z" * 5_000))
    assert "[cut at 2,000 characters: line 3]" in (await read(tmp_path)).text


async def test_format_3_is_read_too(tmp_path: Path) -> None:
    old = {
        "nbformat": 3,
        "worksheets": [
            {"cells": [{"cell_type": "heading", "source": "Top"}]},
            {
                "cells": [
                    {"cell_type": "code", "input": ["1 + 1"], "prompt_number": 7, "outputs": [
                        {"output_type": "pyout", "text": ["2"]},
                        {"output_type": "display_data", "png": picture()},
                        {"output_type": "pyerr", "ename": "E", "evalue": "v"},
                    ]},
                ]
            },
        ],
    }  # fmt: skip
    (tmp_path / "a.ipynb").write_text(json.dumps(old))
    output = await read(tmp_path)
    lines = body(output)
    assert lines[:6] == ["--- cell 1: heading", "Top", "--- cell 2: code, run 7", "1 + 1", "--- output of cell 2", "2"]
    assert lines[6].startswith("[image: image/png") and lines[7] == "E: v" and len(output.images) == 1


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"cells": [}', "not valid JSON (JSON is malformed"),
        ('{"cells": 1}', "no list of cells"),
        ("[1, 2]", "no list of cells"),
        ("null", "no list of cells"),
        ("[" * 200_000, "not valid JSON"),
        ('{"cells": ["\\ud800"]}', "not valid JSON"),
        ("plain text\nof two lines", "not valid JSON"),
    ],
)  # fmt: skip
async def test_what_is_no_notebook_is_shown_as_text_with_a_note(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "a.ipynb").write_text(text)
    output = await read(tmp_path)
    assert output.text.startswith(f"1\t{text[:11].partition(chr(10))[0]}")
    note = output.text.rpartition("\n")[2]
    assert note.endswith("so it is shown as text.]") and why in note


async def test_an_empty_file_is_empty(tmp_path: Path) -> None:
    (tmp_path / "a.ipynb").write_text("")
    assert (await read(tmp_path)).text == "[a.ipynb is empty]"


@pytest.mark.parametrize(
    "cell",
    [
        {}, {"cell_type": 3, "source": 5, "outputs": 7}, {"source": [1, "a", None]}, {"outputs": [1, None, {}]},
        {"outputs": [{"output_type": "stream"}, {"output_type": "error", "traceback": [1, "x"]}]},
        {"outputs": [{"data": {"image/png": 5, "text/plain": {"a": 1}}}]},
        {"outputs": [{"data": {"application/json": {"a": 1}}}]},
        {"attachments": [1], "execution_count": "x", "source": "\x1b[31mred\x00\r\nblue"},
    ],
)  # fmt: skip
async def test_B20_odd_cells_are_shown_as_far_as_they_can_be(tmp_path: Path, cell: dict[str, Any]) -> None:
    save(tmp_path, cell, code("last"))
    output = await read(tmp_path)
    assert "--- cell 2: code, run 1" in output.text and output.text.endswith("\tlast")
    output.text.encode()


async def test_a_read_of_cells_is_no_read_of_the_text_but_the_content_is_known(tmp_path: Path) -> None:
    path = save(tmp_path, code("x = 1"))
    (fact,) = (await read(tmp_path)).files
    assert (fact.whole, fact.ranges, fact.change, fact.path) == (False, (), "read", str(path))
    written = FileFact(fact.path, fact.sha256, ((1, 1),), True, "written")
    (again,) = (await read(tmp_path, known={fact.path: written})).files
    assert (again.whole, again.ranges) == (True, ((1, 1),))


async def test_edit_of_a_notebook_stays_textual(tmp_path: Path) -> None:
    path = save(tmp_path, code("x = 1"))
    calls = Calls(tmp_path)
    await calls.run(Read(), path="a.ipynb")
    await calls.run(Edit(), path="a.ipynb", edits=[{"old": '"x = 1"', "new": '"x = 2"'}])
    assert json.loads(path.read_text())["cells"][0]["source"] == "x = 2"
    assert body(await calls.run(Read(), path="a.ipynb"))[-1] == "x = 2"
