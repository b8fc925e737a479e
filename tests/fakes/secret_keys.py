"""Keys as those who issue them make them, made up anew from a seed: no two have a part in common, and none is real."""

import random
import string

_LETTERS = string.ascii_letters + string.digits


def made_keys(seed: int) -> dict[str, str]:
    """A key of each kind, by its name."""
    rng = random.Random(seed)

    def letters(count: int) -> str:
        """Among them always a digit, a small and a capital letter, and none of the two ends alike."""
        return "a1B" + "".join(rng.choices(_LETTERS, k=count - 3))

    def hexes(count: int) -> str:
        return "".join(rng.choices("0123456789abcdef", k=count))

    def capitals(count: int) -> str:
        return "A2" + "".join(rng.choices(string.ascii_uppercase + string.digits, k=count - 2))

    def digits(count: int) -> str:
        return "1" + "".join(rng.choices(string.digits, k=count - 1))

    return {
        "Anthropic": f"sk-ant-api03-{letters(60)}",
        "OpenRouter": f"sk-or-v1-{hexes(64)}",
        "OpenAI": f"sk-{letters(48)}",
        "OpenAI, project": f"sk-proj-{letters(50)}_-{letters(20)}",
        "Google": f"AIza{letters(35)}",
        "Google, new": f"AQ.{letters(40)}",
        "xAI": f"xai-{letters(70)}",
        "Groq": f"gsk_{letters(52)}",
        "Hugging Face": f"hf_{letters(34)}",
        "Replicate": f"r8_{letters(37)}",
        "Perplexity": f"pplx-{letters(48)}",
        "Fireworks": f"fw_{letters(24)}",
        "NVIDIA": f"nvapi-{letters(60)}",
        "GitHub": f"ghp_{letters(36)}",
        "GitHub, app": f"ghs_{letters(36)}",
        "GitHub, fine-grained": f"github_pat_{letters(22)}_{letters(59)}",
        "GitLab": f"glpat-{letters(20)}",
        "Bitbucket": f"ATBB{letters(32)}",
        "npm": f"npm_{letters(36)}",
        "PyPI": f"pypi-AgEIcHlwaS5vcmc{letters(60)}",
        "RubyGems": f"rubygems_{hexes(48)}",
        "crates.io": f"cio{letters(32)}",
        "Docker": f"dckr_pat_{letters(27)}",
        "AWS, id": f"AKIA{capitals(16)}",
        "AWS, session id": f"ASIA{capitals(16)}",
        "Google OAuth": f"ya29.{letters(60)}",
        "Google OAuth secret": f"GOCSPX-{letters(28)}",
        "DigitalOcean": f"dop_v1_{hexes(64)}",
        "Heroku": f"HRKU-{letters(40)}",
        "Fly": f"fm2_{letters(60)}",
        "Databricks": f"dapi{hexes(32)}",
        "Vault": f"hvs.{letters(40)}",
        "Terraform": f"{letters(14)}.atlasv1.{letters(60)}",
        "Pulumi": f"pul-{hexes(40)}",
        "Doppler": f"dp.pt.{letters(43)}",
        "Supabase": f"sbp_{hexes(40)}",
        "PlanetScale": f"pscale_tkn_{letters(40)}",
        "Slack": f"xoxb-{digits(20)}-{letters(24)}",
        "Slack, app": f"xapp-1-{capitals(10)}-{letters(40)}",
        "Discord bot": f"M{letters(24)}.{letters(6)}.{letters(30)}",
        "Telegram": f"{digits(10)}:AA{letters(33)}",
        "Stripe": f"sk_live_{letters(24)}",
        "Stripe, restricted": f"rk_test_{letters(24)}",
        "Webhook secret": f"whsec_{letters(32)}",
        "Square": f"sq0atp-{letters(22)}",
        "Shopify": f"shpat_{hexes(32)}",
        "SendGrid": f"SG.{letters(22)}.{letters(43)}",
        "Mailgun": f"key-{hexes(32)}",
        "Mailchimp": f"{hexes(32)}-us12",
        "Twilio": f"SK{hexes(32)}",
        "Linear": f"lin_api_{letters(40)}",
        "Notion": f"ntn_{letters(46)}",
        "Figma": f"figd_{letters(40)}",
        "Postman": f"PMAK-{hexes(24)}-{hexes(34)}",
        "Atlassian": f"ATATT3{letters(60)}",
        "Airtable": f"pat{letters(14)}.{hexes(64)}",
        "Dropbox": f"sl.{letters(72)}{letters(20)}",
        "New Relic": f"NRAK-{capitals(27)}",
        "Grafana": f"glsa_{letters(32)}_{hexes(8)}",
        "Sentry": f"sntrys_{letters(60)}",
        "1Password": f"ops_eyJ{letters(60)}",
        "age": f"AGE-SECRET-KEY-1{capitals(46)}{capitals(12)}",
        "JSON web token": f"eyJ{letters(20)}.eyJ{letters(40)}.{letters(43)}",
    }


def made_pem(seed: int, kind: str = "OPENSSH PRIVATE KEY", lines: int = 8) -> str:
    rng = random.Random(seed)
    body = "\n".join("".join(rng.choices(_LETTERS + "+/", k=64)) for _ in range(lines))
    return f"-----BEGIN {kind}-----\n{body}\n-----END {kind}-----"
