"""The inside of a Markdown paragraph → styled spans. Links to web addresses become links; where the words are not the
address, the address stands behind them. Nothing else is ever made clickable, and images are named, not fetched."""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from rich.style import Style

from tui.sanitize import clean, safe_url
from tui.themes import Palette
from tui.widgets.lines import Span

if TYPE_CHECKING:
    from markdown_it.token import Token

_URL = re.compile(r"https?://[^\s<>\"'`|\u2026]+")
_TRAILING = ".,;:!?)]}*_"


def inline_spans(tokens: "Sequence[Token]", palette: Palette, base: Style) -> list[Span]:
    """The spans of an inline token's children; a hard break is a newline in a span."""
    return _Inline(palette, base).run(tokens)


class _Inline:
    def __init__(self, palette: Palette, base: Style) -> None:
        self._palette = palette
        self._base = base
        self._spans: list[Span] = []
        self._strong = self._emphasis = self._struck = 0
        self._target: str | None = None
        self._words: list[str] = []

    def run(self, tokens: "Sequence[Token]") -> list[Span]:
        for token in tokens:
            self._take(token)
        return self._spans

    def _take(self, token: "Token") -> None:
        match token.type:
            case "text" | "text_special":
                self._text(clean(token.content))
            case "code_inline":
                self._add(clean(token.content), self._palette.code)
            case "softbreak":
                self._add(" ", self._style())
            case "hardbreak":
                self._add("\n", self._style())
            case "strong_open" | "strong_close":
                self._strong += token.nesting
            case "em_open" | "em_close":
                self._emphasis += token.nesting
            case "s_open" | "s_close":
                self._struck += token.nesting
            case "link_open":
                self._target, self._words = str(token.attrGet("href") or ""), []
            case "link_close":
                self._close_link()
            case "image":
                self._image(token)
            case "html_inline":
                is_break = token.content.lower().replace(" ", "") in ("<br>", "<br/>")
                self._add("\n" if is_break else clean(token.content), self._style() if is_break else self._palette.dim)
            case _:
                self._add(clean(token.content), self._style())

    def _style(self) -> Style:
        style = _styled(self._base, self._strong > 0, self._emphasis > 0, self._struck > 0)
        if self._target is not None and (url := safe_url(self._target)):
            return _linked(style, self._palette, url)
        return style

    def _add(self, text: str, style: Style) -> None:
        if text:
            self._spans.append((text, style))
            if self._target is not None:
                self._words.append(text)

    def _text(self, text: str) -> None:
        if self._target is not None or "://" not in text:
            self._add(text, self._style())
            return
        at = 0
        for match in _URL.finditer(text):
            url = match[0].rstrip(_TRAILING)
            if (safe := safe_url(url)) is None:
                continue
            self._add(text[at : match.start()], self._style())
            self._add(url, _linked(self._style(), self._palette, safe))
            if _host(url) != _host(safe):  # letters that look like others, or what two programs read differently
                self._add(f" ({safe})", self._palette.target)
            at = match.start() + len(url)
        self._add(text[at:], self._style())

    def _close_link(self) -> None:
        target, words = self._target or "", "".join(self._words).strip()
        self._target = None
        shown = clean(safe_url(target) or target)
        if words.rstrip("/") != shown.rstrip("/") and ("://" in words or _bare(words) != _bare(shown)):
            self._add(f" ({shown})", self._palette.target)

    def _image(self, token: "Token") -> None:
        source = str(token.attrGet("src") or "")
        self._add(f"[image: {clean(token.content)}] ({clean(safe_url(source) or source)})", self._palette.dim)


def _bare(address: str) -> str:
    return address.removeprefix("https://").removeprefix("http://").removeprefix("mailto:").rstrip("/")


def _host(address: str) -> str:
    return address.partition("://")[2].partition("/")[0]


@lru_cache(256)
def _styled(base: Style, strong: bool, emphasis: bool, struck: bool) -> Style:
    return base + Style(bold=strong or None, italic=emphasis or None, strike=struck or None)


@lru_cache(256)
def _linked(style: Style, palette: Palette, url: str) -> Style:
    return style + Style(color=palette.link.color, underline=True, link=url)
