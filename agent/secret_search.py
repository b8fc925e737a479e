"""Finds secrets in a text by the forms that those who issue them gave them, and by the names that stand before them.

It knows where they are, not what becomes of them. Decisions: what merely looks random is left alone, for a hash, an id or an
image in base64 is no secret; behind a name that says so (`password = …`) a value counts where it can be no word, call or
type of a program.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cache

from agent.secret_forms import FORMS, LEAST_ROW, ROW_CHARS, Form
from agent.secret_places import MOST_KEY_CHARS, PLAIN_VALUE, PRIVATE_KEY, SECRET_NAME, Found

_BEFORE_WORD = (
    "access", "auth", "refresh", "bot", "id", "bearer", "client", "db", "user", "admin", "root", "master", "app",
)  # fmt: skip
_BEFORE_KEY = ("api", "access", "secret", "private", "auth", "encryption", "signing", "master")
"""What may stand before a name's last word without a sign between them; a `key` needs one of these."""
_NO_WORD = r"(?=[^\s\"'\\]*[^a-z\s\"'\\_.\[\](){},:|*#-])(?=[^\s\"'\\]*[a-z\d])"
"""At least one character that is neither a letter nor what joins or groups the words of a program, and it is no row of stars."""
_VALUE = (
    r"\\?[\"']?[ \t]*(?:=>|:=|[:=])[ \t]*"
    rf"(?:\\?[\"'](?P<quoted>{_NO_WORD}[^\s\"'\\]{{8,}})\\?[\"']"
    r"|(?P<secret>(?=[a-z_~+/.=-]{0,200}\d)[a-z0-9_~+/.=-]{16,}))"
)


def _name(last: str) -> str:
    """The pattern of a name that ends so with a value behind it; in lower case."""
    if last == "key":
        led = "|".join(f"(?<={first}key)|(?<={first}[_-]key)" for first in _BEFORE_KEY)
    else:
        led = "|".join((f"(?<![a-z]{last})", *(f"(?<={first}{last})" for first in _BEFORE_WORD)))
    return f"{last}(?:{led}){_VALUE}"


_LAST_WORDS = ("token", "secret", "password", "passwd", "passphrase", "pwd", "credential", "key")

_VARIABLE = re.compile(
    r"[ \t]*(?:\d+[\t:|│→-][ \t]*|[+-][ \t]*)?(?:[^\s=:]{1,200}[:-]\d+[:-])?(?:export[ \t]+|set[ \t]+|ENV[ \t]+|ARG[ \t]+)?"
    r"(?P<name>[A-Z][A-Z0-9_]{2,80})=(?P<quote>[\"']?)(?P<value>[^\s\"'`$(){}<>;\\][^\s\"'`(){}<>]{7,4000})(?P=quote)[ \t]*\r?"
)
"""A line that sets a variable, as in .env files and scripts, also where a tool has numbered it."""
_NO_VALUES = ("http://", "https://", "/", "./", "~/", "$", "{", "<", "%", "[redacted")
"""How what stands for a value begins, or says where it is."""
_EXPRESSION = re.compile(r"[a-z_]\w*(?:\.[a-z_]\w*)*")
_MOST_DIGITS_OF_A_NAME = 3
_SETTING_NAMES = ("password", "passwd", "passphrase", "pwd", "secret")
_PUBLIC_NAME = re.compile(r"(?:^|_)(?:PUBLIC|PUB|CACHE|PRIMARY|FOREIGN|SORT|PARTITION|HOST)_")
"""A name with KEY that may as well be that of a cache or a table."""
_MOST_NAME_CHARS = 400
_ASSIGNED = re.compile(r"=(?<=[A-Z0-9_]{3}=)")
"""What stands before is looked at only there: a search for the names themselves takes longer."""
_VARIABLE_HINT = re.compile(r"(?:KEY|TOKEN|SECRET|PASS|PWD|CREDENTIAL|AUTH)[A-Z0-9_]*\Z")
_MOST_VARIABLE_CHARS = 81
_SETTING = r"(?:=|:[ \t])[ \t]*(?P<secret>(?=\S{0,200}\d)[^\s\"'`(){}\[\]<>,;$]{8,200})[ \t]*\r?$"
"""Behind a name at the end of a line, as in YAML and properties."""
_KEY_BEGINS = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|---- BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY ----"
)
_KEY_ENDS = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|---- END [A-Z0-9 ]{0,40}PRIVATE KEY ----")
_LINE_BEGINS = r"[ \t]*(?:[^\s:]{0,200}:)?(?:\d+[:\t│|-])?[+ -]?[ \t]*"
_KEY_LINE = re.compile(
    rf"(?:\s|\\[nr])*{_LINE_BEGINS}(?:[A-Za-z0-9+/=]{{12,}}|(?:Proc-Type|DEK-Info|Version|Comment): [^\n]{{0,200}})"
)
_LAST_OF_KEY = re.compile(rf"{_LINE_BEGINS}[A-Za-z0-9+/=]{{1,100}}[ \t\"',]*\r?")
_LINE_OF_KEY = re.compile(rf"{_LINE_BEGINS}[A-Za-z0-9+/=]{{40,100}}[ \t\"',]*\r?")
_KEY_HOLDS = re.compile(r"[A-Za-z0-9+/=]{16,}")
_LEADS = {
    "Terraform token": re.compile(r"[A-Za-z0-9]{14}\Z"),
    "Telegram token": re.compile(r"(?<!\d)\d{8,10}\Z"),
    "Mailchimp key": re.compile(r"[a-f0-9]{32}\Z"),
    "Discord token": re.compile(r"(?<![A-Za-z0-9_-])[MNO][A-Za-z\d_-]{23,25}\Z"),
}
"""Of those that have their fixed characters in the middle: what must stand before them."""
_MOST_LEAD_CHARS = 33

_LONG_LINE_CHARS = 290
"""Only lines as long as this are cut."""
_CUT_KEY_CHARS = 300
_CUT_KEY = re.compile(
    r"(?<![A-Za-z0-9_-])((?:sk-(?:ant-|proj-|or-)?|gh[pousr]_|github_pat_|glpat-|AIza|A[KS]IA|xox[abeoprs]-|hf_|npm_|gsk_|xai-|eyJ"
    r"|GOCSPX-|ya29\.|SG\.|[rs]k_(?:live|test)_|dop_v1_|hvs\.|pypi-)[A-Za-z0-9_.-]{4,})(?:…[^\n]{0,60}|\r)?\Z"
)

KIND_NAMES = (PRIVATE_KEY, *(form.name for form in FORMS), "value of a variable", "named value", "setting")


@cache
def _compiled(form: Form) -> re.Pattern[str]:
    """Compiled when first needed: all of them take as long as a hundred searches."""
    return re.compile(form.pattern, re.DOTALL)


def find_forms(text: str) -> list[Found]:
    """What has the form of a secret, in the order of precedence; some may overlap."""
    found = list(_private_keys(text)) if "PRIVATE KEY" in text else []
    data, lower = _flattened(text)
    numbers = _hinted(text, data)
    for number, form in _ANYWHERE:
        where = lower if form.ignore_case else text
        if any(hint in where for hint in form.hints):
            numbers.add(number)
    for number in sorted(numbers):
        form = FORMS[number]
        found += _of_form(form.name, _compiled(form), lower if form.ignore_case else text)
    if "=" in text:
        found += _variables(text)
    found += _named(lower)
    found += _cut_off(text)
    return found


def _flattened(text: str) -> tuple[bytes, str]:
    """One byte for each character, and the text in lower case, each character in its place."""
    try:
        data = text.encode("latin-1")
    except UnicodeEncodeError:
        lower = text.lower()
        if len(lower) != len(text):
            lower = re.sub("[A-Z]+", lambda match: match[0].lower(), text)
        return text.encode("latin-1", "replace"), lower
    return data, data.lower().decode("latin-1")  # no form has others than ASCII letters


# Nearly all forms are long words with a known beginning. So the long words are looked for first, which is quick, and in them
# all the beginnings at once: a search for each of these takes far longer.

_ROW = b"a" * LEAST_ROW
_AS_ROW = bytes(_ROW[0] if chr(code) in ROW_CHARS else 0 for code in range(256))
_IN_ROWS = tuple((number, form) for number, form in enumerate(FORMS) if form.in_row and not form.ignore_case)
_ANYWHERE = tuple((number, form) for number, form in enumerate(FORMS) if not form.in_row or form.ignore_case)


def _hinted(text: str, data: bytes) -> set[int]:
    """The numbers of the forms in rows of which a hint stands where it may be one."""
    flat = data.translate(_AS_ROW)
    rows: list[str] = []
    """Each with the character before it, which is part of no word, so that they stay apart."""
    at = flat.find(_ROW)
    while at >= 0:
        end = flat.find(0, at + LEAST_ROW)
        if end < 0:
            end = len(flat)
        rows.append(text[at - 1 : end] if at else f"\n{text[:end]}")
        at = flat.find(_ROW, end)
    hints = set(_HINTS.findall("".join(rows))) if rows else ()
    return {number for hint in hints for number in _NUMBERS[hint]}


def _hint_tables() -> tuple[re.Pattern[str], dict[str, frozenset[int]]]:
    """What finds the longest hint where a word begins, of hints that begin with no part of a word all but that; and the numbers
    of the forms that each may stand for."""
    groups: dict[str, list[str]] = {}
    behind: list[str] = []
    numbers: dict[str, frozenset[int]] = {}
    for hint in sorted({hint for _, form in _IN_ROWS for hint in form.hints}, key=len, reverse=True):
        begins_word = hint[0].isalnum()
        if begins_word:  # those that begin alike are tried together
            groups.setdefault(hint[0], []).append(re.escape(hint[1:]))
        else:
            behind.append(f"(?<={re.escape(hint[0])}){re.escape(hint[1:])}")
        meant = frozenset(number for number, form in _IN_ROWS if hint.startswith(form.hints))
        numbers[hint if begins_word else hint[1:]] = meant
    tree = "|".join((*(f"{first}(?:{'|'.join(rest)})" for first, rest in groups.items()), *behind))
    firsts = "".join({hint[0] for hint in numbers})
    return re.compile(rf"[^A-Za-z0-9_](?=[{firsts}])(?=({tree}))"), numbers


_HINTS, _NUMBERS = _hint_tables()


def _cut_off(text: str) -> Iterator[Found]:
    """Beginnings of keys at the ends of long lines, where readers of files cut them."""
    for start, end in _long_lines(text):
        if (match := _CUT_KEY.search(text, max(start, end - _CUT_KEY_CHARS), end)) is not None:
            yield Found(match.start(), match.end(1), "beginning of a key")


def _long_lines(text: str) -> Iterator[tuple[int, int]]:
    """Where they begin and end, without what ends them; of the short ones only some are looked at."""
    start = 0
    while start + _LONG_LINE_CHARS <= len(text):
        end = text.rfind("\n", start, start + _LONG_LINE_CHARS)
        if end < 0:
            end = text.find("\n", start + _LONG_LINE_CHARS)
            if end < 0:
                end = len(text)
            yield start, end
        start = end + 1


def _of_form(name: str, pattern: re.Pattern[str], text: str) -> Iterator[Found]:
    lead = _LEADS.get(name)
    group: str | int = "secret" if "secret" in pattern.groupindex else 0
    for match in pattern.finditer(text):
        start, end = match.span(group)
        if lead is not None:
            before = lead.search(text[max(0, start - _MOST_LEAD_CHARS) : start])
            if before is None:
                continue
            start -= len(before[0])
        yield _without_end(text, start, end, name)


def _without_end(text: str, start: int, end: int, kind: str) -> Found:
    """The full stop of a sentence is no part of a key."""
    while end > start and text[end - 1] == ".":
        end -= 1
    return Found(start, end, kind)


def _variables(text: str) -> Iterator[Found]:
    done = -1
    for sign in _ASSIGNED.finditer(text):
        at = sign.start()
        if at < done or _VARIABLE_HINT.search(text, max(0, at - _MOST_VARIABLE_CHARS), at) is None:
            continue
        start = text.rfind("\n", 0, at) + 1
        if (done := text.find("\n", at)) < 0:
            done = len(text)
        if at - start > _MOST_NAME_CHARS or (match := _VARIABLE.fullmatch(text, start, done)) is None:
            continue
        if (
            SECRET_NAME.search(match["name"])
            and not PLAIN_VALUE.fullmatch(match["value"])
            and not _PUBLIC_NAME.search(match["name"])
        ):
            yield Found(*match.span("value"), "value of a variable")


@cache
def _named_pattern(last: str) -> tuple[re.Pattern[str], re.Pattern[str] | None]:
    """What stands behind the last word of a name in quotes or with a digit, and what at the end of a line."""
    return (
        re.compile(_name(last)),
        re.compile(last + _SETTING, re.MULTILINE) if last in _SETTING_NAMES else None,
    )


def _named(lower: str) -> Iterator[Found]:
    for last in _LAST_WORDS:
        if last not in lower:
            continue
        pattern, setting = _named_pattern(last)
        for match in pattern.finditer(lower):
            group = "quoted" if match["quoted"] else "secret"
            if not (match[group].startswith(_NO_VALUES) or (group == "secret" and _is_expression(match[group]))):
                yield _without_end(lower, *match.span(group), "named value")
        for match in setting.finditer(lower) if setting is not None else ():
            value = match["secret"]
            if not (PLAIN_VALUE.fullmatch(value) or value.startswith(_NO_VALUES) or value.endswith("array")):
                yield Found(*match.span("secret"), "setting")


def _is_expression(value: str) -> bool:
    """Whether it is likelier what a program calls something than a secret."""
    return _EXPRESSION.fullmatch(value) is not None and sum(c.isdigit() for c in value) <= _MOST_DIGITS_OF_A_NAME


def _private_keys(text: str) -> Iterator[Found]:
    """Blocks of PEM, also those of which the beginning or the end is not here."""
    done = 0
    for begin in _KEY_BEGINS.finditer(text):
        if begin.start() < done:
            continue
        following = _KEY_BEGINS.search(text, begin.end())
        limit = min(begin.end() + MOST_KEY_CHARS, following.start() if following else len(text))
        end = _KEY_ENDS.search(text, begin.end(), limit)
        done = end.end() if end is not None else _after_lines(text, begin.end(), limit)
        if _KEY_HOLDS.search(text, begin.end(), done):  # otherwise it is only spoken of
            yield Found(begin.start(), done, PRIVATE_KEY)
    for end in _KEY_ENDS.finditer(text):
        start = _before_lines(text, end.start())
        if _KEY_HOLDS.search(text, start, end.start()):
            yield Found(start, end.end(), PRIVATE_KEY)


def ends_key(text: str, start: int, end: int) -> bool:
    """Whether the end of a private key stands in that part."""
    return _KEY_ENDS.search(text, start, end) is not None


def _after_lines(text: str, place: int, limit: int) -> int:
    """Where the lines of a key end that begin here."""
    while (line := _KEY_LINE.match(text, place, limit)) is not None:
        place = line.end()
    return place


def _before_lines(text: str, place: int) -> int:
    """Where the lines of a key begin that end here; only the last of them is short."""
    least = max(0, place - MOST_KEY_CHARS)
    if (line_end := text.rfind("\n", least, place)) < 0:
        return place
    start, pattern = line_end + 1, _LAST_OF_KEY
    while start > least:
        line_start = text.rfind("\n", least, start - 1) + 1 or least
        if not pattern.fullmatch(text, line_start, start - 1):
            break
        start, pattern = line_start, _LINE_OF_KEY
    return start


def resolve(found: Sequence[Found]) -> list[Found]:
    """Without those that overlap an earlier one of the list, in the order of the text."""
    if len(found) < 2:
        return list(found)
    taken: list[Found] = []
    starts: list[int] = []
    for item in found:
        at = bisect_left(starts, item.start)
        if at < len(taken) and taken[at].start < item.end:
            continue
        if at and taken[at - 1].end > item.start:
            continue
        starts.insert(at, item.start)
        taken.insert(at, item)
    return taken
