"""What the list above the field offers at the cursor: commands while the text is one, files while a word begins with `@`."""

from collections.abc import Callable, Sequence

from agent.mentions import mention, word_at
from tui.widgets.completion import Choice, CompletionList

Complete = Callable[[str], Sequence[Choice]]
FindFiles = Callable[[str], Sequence[str]]
MOST_FILES = 30


class Offers:
    """Keeps the list up to date; nothing else shows or hides it."""

    def __init__(self, popup: CompletionList, complete: Complete, find_files: FindFiles) -> None:
        """`complete` takes a whole text that begins with a slash, `find_files` what of a path is written so far."""
        self.popup = popup
        self._complete = complete
        self._find_files = find_files
        self._closed_for: str | None = None
        """The text for which the list was closed by hand or by moving through the history."""

    def update(self, text: str, line: str, column: int, *, at_end: bool) -> None:
        """`line` is the cursor's, `column` its place there, `at_end` whether nothing of the text is behind it."""
        if text != self._closed_for:
            self._closed_for = None
        if self._closed_for is not None:
            self.popup.hide()
        elif text.startswith("/") and "\n" not in text and at_end and (choices := self._complete(text)):
            self.popup.show(choices)
        else:
            self.popup.show(self._files(line, column))

    def close(self, text: str) -> None:
        """No list until the text is another one."""
        self._closed_for = text
        self.popup.hide()

    def _files(self, line: str, column: int) -> list[Choice]:
        word = word_at(line, column)
        if word is None:
            return []
        behind = line[word.end : word.end + 1]
        return [_choice(path, (word.start, word.end), behind) for path in self._find_files(word.query)]


def _choice(path: str, span: tuple[int, int], behind: str) -> Choice:
    # A folder is gone into; behind a file the sentence goes on.
    space = "" if path.endswith("/") or behind.isspace() else " "
    return Choice(mention(path) + space, path, span=span)
