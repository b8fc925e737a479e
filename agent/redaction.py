"""Takes secrets out of a text that leaves claw: keys by the formats of those who issue them, and values that are known.

Each secret gets a number, the same wherever it stands, so that a reader can still follow which key was meant. Decisions:
a false alarm costs a word, a miss costs an account, so what only looks like a key goes too where a name says that it is
one (`password = …`); values of variables count from eight characters on, since shorter ones are words of their own.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple
from urllib.parse import quote

LEAST_VALUE_CHARS = 8
_SECRET_NAME = re.compile(r"(?:^|_)(?:API_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASS|PWD|CREDENTIALS?|AUTH)(?:_|\d|$)")
_PLAIN_VALUE = re.compile(r"[/~.][\w./~-]*|[a-z]+|\d+|true|false|https?://[^@]*", re.IGNORECASE)
"""Paths, single words, numbers and addresses: what variables hold whose names only sound like it."""
_OPEN, _CLOSE = "\uf8fe", "\uf8ff"
_HELD = re.compile(f"{_OPEN}(\\d+){_CLOSE}")
_EDGE = r"(?<![A-Za-z0-9_-])"


class _Kind(NamedTuple):
    name: str
    hints: tuple[str, ...]
    """One of these must be in the text, in lower case; to look for them is far quicker than for the pattern."""
    pattern: str
    """The group `secret`, where there is one, is what goes; otherwise all of it."""
    ignore_case: bool = False


_KINDS = (
    # models
    _Kind("Anthropic", ("sk-ant-",), _EDGE + r"sk-ant-[A-Za-z0-9_-]{16,}"),
    _Kind("OpenRouter", ("sk-or-",), _EDGE + r"sk-or-(?:v\d-)?[A-Za-z0-9]{16,}"),
    _Kind("OpenAI, DeepSeek and alike", ("sk-",), _EDGE + r"sk-(?:proj-|svcacct-|admin-|None-)?[A-Za-z0-9_-]{20,}"),
    _Kind("Google", ("aiza",), _EDGE + r"AIza[A-Za-z0-9_-]{35}"),
    _Kind("Google, new", ("aq.",), _EDGE + r"AQ\.[A-Za-z0-9_-]{30,}"),
    _Kind("xAI", ("xai-",), _EDGE + r"xai-[A-Za-z0-9]{20,}"),
    _Kind("Groq", ("gsk_",), _EDGE + r"gsk_[A-Za-z0-9]{20,}"),
    _Kind("Hugging Face", ("hf_",), _EDGE + r"hf_[A-Za-z0-9]{20,}"),
    _Kind("Replicate", ("r8_",), _EDGE + r"r8_[A-Za-z0-9]{20,}"),
    _Kind("Perplexity", ("pplx-",), _EDGE + r"pplx-[A-Za-z0-9]{20,}"),
    _Kind("Fireworks", ("fw_",), _EDGE + r"fw_[A-Za-z0-9]{20,}"),
    _Kind("NVIDIA", ("nvapi-",), _EDGE + r"nvapi-[A-Za-z0-9_-]{20,}"),
    # code and packages
    _Kind("GitHub", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), _EDGE + r"gh[pousr]_[A-Za-z0-9]{20,}"),
    _Kind("GitHub, fine-grained", ("github_pat_",), _EDGE + r"github_pat_[A-Za-z0-9_]{20,}"),
    _Kind("GitLab", ("gl",), _EDGE + r"gl(?:pat|ptt|dt|rt|cbt|soat|agent|oas|ft|imt|ffct)-[A-Za-z0-9_.=-]{16,}"),
    _Kind("Bitbucket", ("atbb", "atctt"), _EDGE + r"AT(?:BB|CTT)[A-Za-z0-9_=-]{24,}"),
    _Kind("npm", ("npm_",), _EDGE + r"npm_[A-Za-z0-9]{30,}"),
    _Kind("PyPI", ("pypi-",), _EDGE + r"pypi-AgE[A-Za-z0-9_-]{20,}"),
    _Kind("RubyGems", ("rubygems_",), _EDGE + r"rubygems_[a-f0-9]{40,}"),
    _Kind("crates.io", ("cio",), _EDGE + r"cio[A-Za-z0-9]{32}(?![A-Za-z0-9])"),
    _Kind("Docker", ("dckr_",), _EDGE + r"dckr_[po]at_[A-Za-z0-9_-]{20,}"),
    # clouds
    _Kind("AWS, id", ("akia", "asia", "abia", "acca"), _EDGE + r"A(?:KIA|SIA|BIA|CCA)[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _Kind(
        "AWS, secret",
        ("aws",),
        r"aws.{0,20}?(?:secret|session).{0,20}?[=:]\s*[\"']?(?P<secret>[A-Za-z0-9/+=]{40,})",
        True,
    ),
    _Kind("Google OAuth", ("ya29.",), _EDGE + r"ya29\.[A-Za-z0-9_-]{20,}"),
    _Kind("Google OAuth secret", ("gocspx-",), _EDGE + r"GOCSPX-[A-Za-z0-9_-]{20,}"),
    _Kind(
        "Azure storage",
        ("accountkey=", "sharedaccesskey="),
        r"(?:Account|SharedAccess)Key=(?P<secret>[A-Za-z0-9+/=]{40,})",
        True,
    ),
    _Kind("Azure SAS", ("sig=",), r"[?&]sig=(?P<secret>[A-Za-z0-9%+/=]{32,})"),
    _Kind("DigitalOcean", ("do",), _EDGE + r"do[opr]_v1_[a-f0-9]{40,}"),
    _Kind("Heroku", ("hrku-",), _EDGE + r"HRKU-[A-Za-z0-9_-]{20,}"),
    _Kind("Fly", ("fm",), _EDGE + r"fm[12][ar]?_[A-Za-z0-9+/=_-]{40,}"),
    _Kind("Databricks", ("dapi",), _EDGE + r"dapi[a-f0-9]{32}(?:-\d)?(?![A-Za-z0-9])"),
    _Kind("Vault", ("hv",), _EDGE + r"hv[sbr]\.[A-Za-z0-9_-]{20,}"),
    _Kind("Terraform", ("atlasv1.",), r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{40,}"),
    _Kind("Pulumi", ("pul-",), _EDGE + r"pul-[a-f0-9]{40}"),
    _Kind("Doppler", ("dp.",), _EDGE + r"dp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9.]{30,}"),
    _Kind("Supabase", ("sbp_", "sb_secret_"), _EDGE + r"(?:sbp_[a-f0-9]{40}|sb_secret_[A-Za-z0-9_-]{20,})"),
    _Kind("PlanetScale", ("pscale_",), _EDGE + r"pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.=-]{20,}"),
    # services
    _Kind("Slack", ("xox", "xapp-"), _EDGE + r"(?:xox[abeoprs]|xapp)-[A-Za-z0-9.-]{10,}"),
    _Kind(
        "Slack webhook",
        ("hooks.slack.com",),
        r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<secret>[A-Za-z0-9/_-]{20,})",
    ),
    _Kind("Discord webhook", ("/api/webhooks/",), r"/api/webhooks/(?P<secret>\d{15,}/[A-Za-z0-9_-]{30,})"),
    _Kind(
        "Discord bot",
        (".",),
        _EDGE + r"[MNO][A-Za-z\d_-]{23,25}\.[A-Za-z\d_-]{6}\.[A-Za-z\d_-]{27,38}(?![A-Za-z0-9_-])",
    ),
    _Kind("Telegram", (":aa",), r"(?<!\d)\d{8,10}:AA[A-Za-z0-9_-]{32,33}(?![A-Za-z0-9_-])"),
    _Kind("Stripe", ("_live_", "_test_"), _EDGE + r"[rsp]k_(?:live|test)_[A-Za-z0-9]{16,}"),
    _Kind("Webhook secret", ("whsec_",), _EDGE + r"whsec_[A-Za-z0-9+/=]{20,}"),
    _Kind("Square", ("sq0", "eaaa"), _EDGE + r"(?:sq0[a-z]{3}-[A-Za-z0-9_-]{22,}|EAAA[A-Za-z0-9_-]{60})"),
    _Kind("Shopify", ("shp",), _EDGE + r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}"),
    _Kind("SendGrid", ("sg.",), _EDGE + r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),
    _Kind("Mailgun", ("key-",), _EDGE + r"key-[a-f0-9]{32}(?![A-Za-z0-9])"),
    _Kind("Mailchimp", ("-us",), _EDGE + r"[a-f0-9]{32}-us\d{1,2}(?![A-Za-z0-9])"),
    _Kind("Twilio", ("sk",), _EDGE + r"SK[a-f0-9]{32}(?![A-Za-z0-9])"),
    _Kind("Linear", ("lin_",), _EDGE + r"lin_(?:api|oauth)_[A-Za-z0-9]{30,}"),
    _Kind("Notion", ("ntn_", "secret_"), _EDGE + r"(?:ntn_|secret_)[A-Za-z0-9]{40,}"),
    _Kind("Figma", ("figd_",), _EDGE + r"figd_[A-Za-z0-9_-]{20,}"),
    _Kind("Postman", ("pmak-",), _EDGE + r"PMAK-[a-f0-9]{24}-[a-f0-9]{34}"),
    _Kind("Atlassian", ("atatt3",), _EDGE + r"ATATT3[A-Za-z0-9_=-]{40,}"),
    _Kind("Airtable", ("pat",), _EDGE + r"pat[A-Za-z0-9]{14}\.[a-f0-9]{64}"),
    _Kind("Dropbox", ("sl.",), _EDGE + r"sl\.(?:u\.)?[A-Za-z0-9_-]{60,}"),
    _Kind("New Relic", ("nrak-",), _EDGE + r"NRAK-[A-Z0-9]{27}"),
    _Kind("Grafana", ("glsa_", "glc_"), _EDGE + r"(?:glsa|glc)_[A-Za-z0-9+/=_]{30,}"),
    _Kind("Sentry", ("sntry",), _EDGE + r"sntry[su]_[A-Za-z0-9+/=_-]{40,}"),
    _Kind("1Password", ("ops_",), _EDGE + r"ops_eyJ[A-Za-z0-9+/=_-]{40,}"),
    # forms that anyone may use
    _Kind(
        "private key",
        ("private key",),
        r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
        r"(?:(?:(?!-----BEGIN).){0,20000}?-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
        r"|(?:(?:\s|\\[nr])*[A-Za-z0-9+/=]{12,})*)",
    ),
    _Kind("age", ("age-secret-key-",), r"AGE-SECRET-KEY-1[A-Z0-9]{40,}", True),
    _Kind("JSON web token", ("eyj",), _EDGE + r"eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"),
    _Kind("address with a password", ("://",), r"://[^\s/:@\"'<>]{0,256}:(?P<secret>[^\s/@\"'<>]{1,512})@", True),
    _Kind(
        "authorization",
        ("bearer ", "basic ", "token "),
        r"\b(?:authorization|proxy-authorization)[\"']?\s*[:=]\s*[\"']?(?:bearer|basic|token)\s+(?P<secret>[A-Za-z0-9._~+/=-]{8,})",
        True,
    ),
    _Kind("bearer", ("bearer ",), r"\bbearer\s+(?P<secret>[A-Za-z0-9._~+/=-]{20,})", True),
    _Kind(
        "named so",
        ("key", "token", "secret", "passw", "pwd", "credential"),
        r"(?:api[_-]?key|access[_-]?key|secret[_-]?key|private[_-]?key|auth[_-]?key|(?:access|auth|refresh|bot|id)[_-]?token|client[_-]?secret|"
        r"(?<![a-z])(?:token|secret|passw(?:or)?d|passphrase|pwd|credential)s?)"
        r"\\?[\"']?\s*(?:=>|:=|[:=])\s*(?:\\?[\"'](?P<quoted>[^\s\"'\\]{8,})|(?P<secret>(?=[A-Za-z_~+/.=-]{0,200}\d)[A-Za-z0-9_~+/.=-]{16,}))",
        True,
    ),
)


@cache
def _patterns() -> tuple[tuple[tuple[str, ...], re.Pattern[str]], ...]:
    return tuple(
        (kind.hints, re.compile(kind.pattern, re.DOTALL | (re.IGNORECASE if kind.ignore_case else 0)))
        for kind in _KINDS
    )


KIND_NAMES = tuple(kind.name for kind in _KINDS)


class Redactor:
    """Replaces secrets by `[redacted N]`. One for each document, so that its numbers begin at 1."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        """`values`: secrets that are known whatever they look like, see `secret_values`."""
        self._values = {form: value for value in values for form in _forms(value)}
        longest_first = sorted(self._values, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None
        self._numbers: dict[str, int] = {}

    @property
    def count(self) -> int:
        """How many different secrets were taken out so far."""
        return len(self._numbers)

    def text(self, text: str) -> str:
        found: list[str] = []
        if self._known is not None:
            text = self._known.sub(lambda match: _hold(self._values[match[0]], found), text)
        lower = text.lower()
        for hints, pattern in _patterns():
            if any(hint in lower for hint in hints):
                text = pattern.sub(lambda match: _replace(match, found), text)
        if not found:
            return text
        # Numbered last, in the order of the text and not of the kinds.
        return _HELD.sub(lambda match: self._marker(found[int(match[1])]) if int(match[1]) < len(found) else "", text)

    def value(self, value: Any) -> Any:
        """A copy of plain JSON values with every text in it redacted, keys of objects included."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(key)): self._named(str(key), item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(item) for item in value]
        return value

    def _named(self, key: str, value: Any) -> Any:
        """A value whose key says that it is secret is one, though neither alone would tell."""
        if isinstance(value, str) and _SECRET_NAME.search(key.upper()) and len(value) >= LEAST_VALUE_CHARS:
            shown = self.text(value)
            return shown if shown != value or _PLAIN_VALUE.fullmatch(value) else self._marker(value)
        return self.value(value)

    def _marker(self, secret: str) -> str:
        return f"[redacted {self._numbers.setdefault(secret, len(self._numbers) + 1)}]"


def _hold(secret: str, found: list[str]) -> str:
    """What stands for a secret until all are found; no pattern takes it for a part of another."""
    found.append(secret)
    return f"{_OPEN}{len(found) - 1}{_CLOSE}"


def _replace(match: re.Match[str], found: list[str]) -> str:
    groups = match.groupdict()
    name = next((name for name in ("secret", "quoted") if groups.get(name)), 0)
    whole, secret = match[0], match[name].rstrip(".")
    if _OPEN in secret or secret.startswith("[redacted"):
        return whole
    start = match.start(name) - match.start()
    return f"{whole[:start]}{_hold(secret, found)}{whole[start + len(secret) :]}"


def secret_values(env: Mapping[str, str], names: Iterable[str] = ()) -> list[str]:
    """Values of the variables that hold keys: those named, and those whose names say so. Paths and plain words are left
    out."""
    given = set(names)
    wanted = [value for name, value in env.items() if name in given or _SECRET_NAME.search(name.upper())]
    return [value for value in wanted if len(value) >= LEAST_VALUE_CHARS and not _PLAIN_VALUE.fullmatch(value)]


def _forms(value: str) -> set[str]:
    """A value as it is, and as it stands in an address or in JSON."""
    if len(value) < LEAST_VALUE_CHARS:
        return set()
    in_json = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return {value, quote(value, safe=""), in_json}
