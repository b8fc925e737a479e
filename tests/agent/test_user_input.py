import os
from pathlib import Path

import pytest
from PIL import Image

from agent.images import ImageLimits
from agent.mentions import find_mentions
from agent.permissions.workspace import Workspace
from agent.transcript import AttachmentBlock
from agent.user_input import MOST_FILE_TEXT_BYTES, MOST_FILES, UserInput, make_user
from providers.types import ImageBlock, TextBlock

LIMITS = ImageLimits(200, 1_000_000)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "src").mkdir(parents=True)
    (root / "src" / "app.py").write_text("one\ntwo\nthree\n")
    (root / "two words.md").write_text("# Two\n")
    (tmp_path / "outside.txt").write_text("secret\n")
    return root


async def made(root: Path, text: str, limits: ImageLimits | None = LIMITS) -> UserInput:
    return await make_user(text, find_mentions(text), Workspace(root, root), limits)


def attached(given: UserInput) -> list[tuple[str, str | None]]:
    return [(block.path, block.text) for block in given.user.blocks if isinstance(block, AttachmentBlock)]


async def test_files_go_along_as_they_are(root: Path) -> None:
    given = await made(root, 'compare @src/app.py, (@"two words.md") and @src/app.py.')
    assert given.user.blocks[0] == TextBlock('compare @src/app.py, (@"two words.md") and @src/app.py.')
    assert attached(given) == [("src/app.py", "one\ntwo\nthree\n"), ("two words.md", "# Two\n")]
    assert given.attached == ("src/app.py (3 lines)", "two words.md (1 line)") and not given.problems
    (root / "src" / "app.py").write_text("changed")
    assert attached(given)[0][1] == "one\ntwo\nthree\n"


async def test_lines_of_a_file(root: Path) -> None:
    given = await made(root, "@src/app.py:2 @src/app.py:2-3 @src/app.py:9 @src/app.py:3-2")
    assert attached(given) == [("src/app.py:2", "two"), ("src/app.py:2-3", "two\nthree")]
    assert given.problems == (
        "src/app.py has 3 lines, so there are no lines 9-9.",
        "src/app.py has 3 lines, so there are no lines 3-2.",
    )


async def test_words_that_name_nothing_are_left_alone(root: Path) -> None:
    given = await made(root, "@property def x; ask @someone; see @src/gone.py; @types/node")
    assert attached(given) == []
    assert given.problems == (
        "There is no file src/gone.py, so it is sent as text alone.",
        "There is no file types/node, so it is sent as text alone.",
    )


async def test_a_folder_goes_along_as_its_names(root: Path) -> None:
    (root / "src" / "inner").mkdir()
    (root / "src" / "esc\x1b[31m").write_text("x")
    given = await made(root, "@src/")
    assert attached(given) == [("src/", 'app.py\n"esc\\u001b[31m"\ninner/')]


@pytest.mark.parametrize("size", [MOST_FILE_TEXT_BYTES - 1, MOST_FILE_TEXT_BYTES, MOST_FILE_TEXT_BYTES + 1, 20_000_000])
@pytest.mark.parametrize("line", [b"0123456789abcde\n", "é€😀\n".encode(), b"no line end "])
async def test_only_the_head_of_a_long_file_goes_along(root: Path, size: int, line: bytes) -> None:
    (root / "big.txt").write_bytes((line * (size // len(line) + 1))[: size // len(line) * len(line)])
    ((path, text),) = attached(given := await made(root, "@big.txt"))
    assert path == "big.txt" and text is not None and not given.problems
    whole = (root / "big.txt").read_bytes()
    if len(whole) <= MOST_FILE_TEXT_BYTES:
        assert text.encode() == whole
        return
    head, _, note = text.rpartition("\n[Cut here: ")
    assert whole.startswith(head.encode()) and 0.9 * MOST_FILE_TEXT_BYTES < len(head.encode()) <= MOST_FILE_TEXT_BYTES
    assert f"{len(whole):,} bytes" in note
    if b"\n" in line:
        assert f"at offset {head.count(chr(10)) + 2}.]" in note


async def test_R7_what_is_no_text_is_refused_with_a_reason(root: Path) -> None:
    (root / "a.bin").write_bytes(b"\x7fELF\0\0\0")
    os.mkfifo(root / "pipe")
    (root / "locked").write_text("x")
    (root / "damaged.png").write_bytes(b"\x89PNG\r\n\x1a\n nothing")
    given = await made(root, "@a.bin @pipe @damaged.png")
    assert attached(given) == []
    binary, fifo, image = given.problems
    assert "a.bin is a binary file (an ELF program" in binary and "FIFO" in fifo and "damaged" in image


async def test_R7_outside_only_what_says_so_itself(root: Path) -> None:
    (root / "link").symlink_to(root.parent / "outside.txt")
    assert attached(await made(root, "@../outside.txt")) == [(str(root.parent / "outside.txt"), "secret\n")]
    assert attached(await made(root, f"@{root.parent}/outside.txt"))[0][1] == "secret\n"
    given = await made(root, "@link")
    assert attached(given) == [] and "leads out of the project" in given.problems[0]


async def test_what_a_rule_closes_stays_closed(root: Path) -> None:
    (root / ".env").write_text("KEY=1")
    workspace = Workspace(root, root)
    workspace.is_closed = lambda path: path.name == ".env"
    given = await make_user("@.env", ("./.env",), workspace, LIMITS)
    assert attached(given) == [] and given.problems == ("A rule forbids to read .env, so it does not go along.",)


async def test_an_image_is_scaled_and_named(root: Path) -> None:
    Image.new("RGB", (400, 100), "red").save(root / "shot.png")
    given = await made(root, "what is @shot.png?")
    _, caption, image = given.user.blocks
    assert isinstance(caption, TextBlock) and "shot.png" in caption.text
    assert isinstance(image, ImageBlock) and (image.width, image.height) == (200, 50)
    assert [blob.sha256 for blob in given.blobs] == [image.sha256] and given.attached == ("shot.png (200×50 pixels)",)
    blind = await made(root, "what is @shot.png?", None)
    assert blind.blobs == () and "sees no images" in blind.problems[0]


async def test_the_number_and_the_sum_of_files_are_bounded(root: Path) -> None:
    for number in range(MOST_FILES + 2):
        (root / f"{number}.txt").write_text("x" * 30_000)
    given = await made(root, " ".join(f"@{number}.txt" for number in range(MOST_FILES + 2)))
    assert sum(len(text or "") for _, text in attached(given)) < 410_000
    assert len(attached(given)) == 14 and len(given.problems) == 8
