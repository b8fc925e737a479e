"""The table of forms that keys have, by those who issue them. Data: who looks for them is agent/secret_search.py.

The order decides which of two that overlap is meant. Each pattern begins with fixed characters, which makes a search for it as
quick as one for these characters, and each is only tried where its hints are.
"""

import string
from typing import NamedTuple

LEAST_ROW = 15
ROW_CHARS = string.ascii_letters + string.digits + "_-=.+/%~"
"""Keys are long words of these."""


class Form(NamedTuple):
    name: str
    hints: tuple[str, ...]
    """One of these is in every text that holds one."""
    pattern: str
    """The groups `secret` and `quoted`, where there are such, are what goes; otherwise all of it."""
    ignore_case: bool = False
    """Then hints and pattern are in lower case, and are looked for in the text in lower case."""
    in_row: bool = True
    """Where the case counts: a hint begins a word or with what is no part of one, and from there on, or from the character
    behind, at least `LEAST_ROW` characters are all of `ROW_CHARS`."""


def _led(prefix: str, body: str) -> str:
    """A key that begins with a prefix of fixed length, as a word of its own."""
    # A minus alone at the beginning of a line is that of a diff.
    return f"{prefix}(?<![A-Za-z0-9_]{prefix})(?<![^\n]-{prefix}){body}"


FORMS = (
    # models
    Form("Anthropic key", ("sk-ant-",), _led("sk-ant-", r"[A-Za-z0-9_-]{16,}")),
    Form("OpenRouter key", ("sk-or-",), _led("sk-or-", r"(?:v\d-)?[A-Za-z0-9]{16,}")),
    Form("OpenAI key", ("sk-",), _led("sk-", r"(?=[A-Za-z0-9_-]*\d)(?:proj-|svcacct-|admin-|None-)?[A-Za-z0-9_-]{20,}")),
    Form("Google key", ("AIza",), _led("AIza", r"[A-Za-z0-9_-]{35}")),
    Form("Google key, new", ("AQ.",), _led(r"AQ\.", r"(?=[A-Za-z0-9_-]*\d)[A-Za-z0-9_-]{30,}")),
    Form("xAI key", ("xai-",), _led("xai-", r"[A-Za-z0-9]{20,}")),
    Form("Groq key", ("gsk_",), _led("gsk_", r"[A-Za-z0-9]{20,}")),
    Form("Hugging Face token", ("hf_",), _led("hf_", r"[A-Za-z0-9]{20,}")),
    Form("Replicate token", ("r8_",), _led("r8_", r"[A-Za-z0-9]{20,}")),
    Form("Perplexity key", ("pplx-",), _led("pplx-", r"[A-Za-z0-9]{20,}")),
    Form("Fireworks key", ("fw_",), _led("fw_", r"[A-Za-z0-9]{20,}")),
    Form("NVIDIA key", ("nvapi-",), _led("nvapi-", r"[A-Za-z0-9_-]{20,}")),
    # code and packages
    Form("GitHub token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), _led("gh[pousr]_", r"[A-Za-z0-9]{20,}")),
    Form("GitHub token, fine-grained", ("github_pat_",), _led("github_pat_", r"[A-Za-z0-9_]{20,}")),
    Form(
        "GitLab token",
        ("glpat-", "glptt-", "gldt-", "glrt-", "glcbt-", "glsoat-", "glagent-", "gloas-", "glft-", "glimt-", "glffct-"),
        _led("gl", r"(?:pat|ptt|dt|rt|cbt|soat|agent|oas|ft|imt|ffct)-[A-Za-z0-9_.=-]{16,}"),
    ),
    Form("Bitbucket token", ("ATBB", "ATCTT"), _led("AT", r"(?:BB|CTT)[A-Za-z0-9_=-]{24,}")),
    Form("npm token", ("npm_",), _led("npm_", r"[A-Za-z0-9]{30,}")),
    Form("PyPI token", ("pypi-AgE",), _led("pypi-AgE", r"[A-Za-z0-9_-]{20,}")),
    Form("RubyGems key", ("rubygems_",), _led("rubygems_", r"[a-f0-9]{40,}")),
    Form("crates.io token", ("cio",), _led("cio", r"[A-Za-z0-9]{32}(?![A-Za-z0-9])")),
    Form("Docker token", ("dckr_",), _led("dckr_", r"[po]at_[A-Za-z0-9_-]{20,}")),
    # clouds
    Form("AWS key id", ("AKIA", "ASIA", "ABIA", "ACCA"), _led("A", r"(?:KIA|SIA|BIA|CCA)[A-Z0-9]{16}(?![A-Za-z0-9])")),
    Form(
        "AWS secret",
        ("aws",),
        r"aws.{0,20}?(?:secret|session).{0,20}?[=:][ \t]*[\"']?(?P<secret>[a-z0-9/+=]{40,})",
        True,
    ),
    Form("Google OAuth token", ("ya29.",), _led(r"ya29\.", r"[A-Za-z0-9_-]{20,}")),
    Form("Google OAuth secret", ("GOCSPX-",), _led("GOCSPX-", r"[A-Za-z0-9_-]{20,}")),
    Form("Azure key", ("accountkey=",), r"accountkey=(?P<secret>[a-z0-9+/=]{40,})", True),
    Form("Azure key, shared", ("sharedaccesskey=",), r"sharedaccesskey=(?P<secret>[a-z0-9+/=]{40,})", True),
    Form("Azure signature", ("sig=",), r"sig=(?<=[?&]sig=)(?P<secret>[A-Za-z0-9%+/=]{32,})"),
    Form("DigitalOcean token", ("dop_v1_", "doo_v1_", "dor_v1_"), _led("do[opr]_v1_", r"[a-f0-9]{40,}")),
    Form("Heroku key", ("HRKU-",), _led("HRKU-", r"[A-Za-z0-9_-]{20,}")),
    Form(
        "Fly token",
        ("fm1", "fm2"),
        _led("fm", r"[12][ar]?_[A-Za-z0-9+/=_-]{40,}"),
    ),
    Form("Databricks token", ("dapi",), _led("dapi", r"[a-f0-9]{32}(?:-\d)?(?![A-Za-z0-9])")),
    Form("Vault token", ("hvs.", "hvb.", "hvr."), _led("hv", r"[sbr]\.[A-Za-z0-9_-]{20,}")),
    Form("Terraform token", (".atlasv1.",), r"\.atlasv1\.(?<=[A-Za-z0-9]{14}\.atlasv1\.)[A-Za-z0-9_=-]{40,}"),
    Form("Pulumi token", ("pul-",), _led("pul-", r"[a-f0-9]{40}")),
    Form("Doppler token", ("dp.",), _led(r"dp\.", r"(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9.]{30,}")),
    Form("Supabase token", ("sbp_",), _led("sbp_", r"[a-f0-9]{40}")),
    Form("Supabase secret", ("sb_secret_",), _led("sb_secret_", r"[A-Za-z0-9_-]{20,}")),
    Form("PlanetScale token", ("pscale_",), _led("pscale_", r"(?:tkn|pw|oauth)_[A-Za-z0-9_.=-]{20,}")),
    # services
    Form("Slack token", ("xox",), _led("xox[abeoprs]-", r"(?=[A-Za-z0-9.-]*\d)[A-Za-z0-9.-]{10,}")),
    Form("Slack token, app", ("xapp-",), _led("xapp-", r"(?=[A-Za-z0-9.-]*\d)[A-Za-z0-9.-]{10,}")),
    Form(
        "Slack webhook",
        (".slack.com/",),
        r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<secret>[A-Za-z0-9/_-]{20,})",
    ),
    Form("Discord webhook", ("/api/webhooks/",), r"/api/webhooks/(?P<secret>\d{15,}/[A-Za-z0-9_-]{30,})"),
    Form("Discord token", (".",), r"\.[A-Za-z\d_-]{6}\.[A-Za-z\d_-]{27,38}(?![A-Za-z0-9_-])", in_row=False),
    Form("Telegram token", (":AA",), r":AA(?<=\d{8}:AA)[A-Za-z0-9_-]{32,33}(?![A-Za-z0-9_-])"),
    Form(
        "Stripe key",
        ("sk_live_", "rk_live_", "pk_live_", "sk_test_", "rk_test_", "pk_test_"),
        _led("[rsp]k_", r"(?:live|test)_[A-Za-z0-9]{16,}"),
    ),
    Form("webhook secret", ("whsec_",), _led("whsec_", r"[A-Za-z0-9+/=]{20,}")),
    Form("Square token", ("sq0",), _led("sq0", r"[a-z]{3}-[A-Za-z0-9_-]{22,}")),
    Form("Square token, old", ("EAAA",), _led("EAAA", r"[A-Za-z0-9_-]{60}(?![A-Za-z0-9+/=])")),
    Form("Shopify token", ("shpat_", "shpca_", "shppa_", "shpss_"), _led("shp", r"(?:at|ca|pa|ss)_[a-fA-F0-9]{32}")),
    Form("SendGrid key", ("SG.",), _led(r"SG\.", r"[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}")),
    Form("Mailgun key", ("key-",), _led("key-", r"[a-f0-9]{32}(?![A-Za-z0-9])")),
    Form("Mailchimp key", ("-us",), r"-us(?<=[a-f0-9]{32}-us)(?<![A-Za-z0-9_][a-f0-9]{32}-us)\d{1,2}(?![A-Za-z0-9])"),
    Form("Twilio key", ("SK",), _led("SK", r"[a-f0-9]{32}(?![A-Za-z0-9])")),
    Form("Linear key", ("lin_",), _led("lin_", r"(?:api|oauth)_[A-Za-z0-9]{30,}")),
    Form("Notion token", ("ntn_",), _led("ntn_", r"[A-Za-z0-9]{40,}")),
    Form("Notion token, old", ("secret_",), _led("secret_", r"[A-Za-z0-9]{40,}")),
    Form("Figma token", ("figd_",), _led("figd_", r"[A-Za-z0-9_-]{20,}")),
    Form("Postman key", ("PMAK-",), _led("PMAK-", r"[a-f0-9]{24}-[a-f0-9]{34}")),
    Form("Atlassian token", ("ATATT3",), _led("ATATT3", r"[A-Za-z0-9_=-]{40,}")),
    Form("Airtable token", ("pat",), _led("pat", r"[A-Za-z0-9]{14}\.[a-f0-9]{64}")),
    Form("Dropbox token", ("sl.",), _led(r"sl\.", r"(?:u\.)?[A-Za-z0-9_-]{60,}")),
    Form("New Relic key", ("NRAK-",), _led("NRAK-", r"[A-Z0-9]{27}")),
    Form("Grafana token", ("glsa_", "glc_"), _led("gl", r"(?:sa|c)_[A-Za-z0-9+/=_]{30,}")),
    Form("Sentry token", ("sntrys_", "sntryu_"), _led("sntry", r"[su]_[A-Za-z0-9+/=_-]{40,}")),
    Form("1Password token", ("ops_eyJ",), _led("ops_eyJ", r"[A-Za-z0-9+/=_-]{40,}")),
    Form("age key", ("age-secret-key-1",), r"age-secret-key-1[a-z0-9]{40,}", True),
    # forms that anyone may use
    Form("JSON web token", ("eyJ",), _led("eyJ", r"[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*")),
    Form(
        "PuTTY key",
        ("Private-Lines: ",),
        r"Private-Lines: \d+\r?\n(?P<secret>(?:[A-Za-z0-9+/=]{1,80}\r?\n?){1,400})",
        in_row=False,
    ),
    Form(
        "password in an address",
        ("://",),
        r"://[^\s/:@\"'<>{$]{0,256}:(?P<secret>(?![{$*<%])(?!(?:password|passwd|pass|pwd|pw|secret|p|x+)@)[^\s/@\"'<>\[\]]{1,512})@",
        in_row=False,
    ),
    Form(
        "authorization",
        ("authorization",),
        r"authorization[\"']?\s*[:=]\s*[\"']?(?:bearer|basic|token)\s+(?P<secret>[a-z0-9._~+/=-]{8,})",
        True,
    ),
    Form("bearer token", ("bearer ",), r"bearer[ \t]+(?P<secret>(?=[a-z0-9._~+/=-]*\d)[a-z0-9._~+/=-]{20,})", True),
    Form("password of .netrc", ("password",), r"login[ \t]+\S{1,200}\s{1,20}password[ \t]+(?P<secret>\S{3,200})", True),
)  # fmt: skip
