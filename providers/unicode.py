"""Lone surrogates: halves of a character that JSON can spell and UTF-8 cannot. Servers send them, APIs refuse them."""


def clean(text: str) -> str:
    """`text` as it can be encoded: halves that belong together are joined, the others become U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


class SurrogateJoiner:
    """Cleans a text that comes in pieces, also where a piece ends in the middle of a character."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, piece: str) -> str:
        """The piece as it can be shown; its last half character is held back until the next piece."""
        text = self._held + piece
        self._held = ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            text, self._held = text[:-1], text[-1]
        return clean(text)

    def flush(self) -> str:
        """What was held back when the text ended."""
        text, self._held = self._held, ""
        return clean(text)
