"""What `write` and `edit` say to a marker that stands for a secret: it is never written where it does not stand already."""

from agent.redaction import MARKER


def marker_fault(before: str, after: str, shown: str) -> str:
    """Why a file must not be given this text: it would hold a marker that it does not hold now. Empty: it may.

    A file that really has such a text in it keeps it.
    """
    if "[redacted " not in after:
        return ""
    for marker in dict.fromkeys(match[0] for match in MARKER.finditer(after)):
        if after.count(marker) > before.count(marker):
            return (
                f"The new text of {shown} holds {marker}, which stands for a secret that you cannot see: written, it would "
                "take the secret's place. Nothing was changed. Leave the part with the secret out of the change (edit what "
                "stands before and behind it), or refer to a variable or a file; if the secret itself has to go in, ask the user."
            )
    return ""


def marker_hint(old: str) -> str:
    """What to tell of an old text with a marker that was not found."""
    if (marker := MARKER.search(old)) is None:
        return ""
    return (
        f" The old text holds {marker[0]}: in the file the secret itself stands there. Choose old texts that end before it or "
        "begin behind it; a part of the line is enough. To replace the secret itself, use a command that need not know it (sed)."
    )
