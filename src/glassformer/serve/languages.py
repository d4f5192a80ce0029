"""Language codes as LibreTranslate's clients write them, their names, and how they are written."""

from __future__ import annotations

from functools import cache

from babel import Locale, UnknownLocaleError
from babel.core import get_global

UNDETERMINED = "und"
"""ISO 639's code for a language that nobody has named"""

# LibreTranslate 1.6 began to name scripts and regions; older clients still send the short codes.
_ALIASES = {
    "zh": "zh-Hans",
    "zh-cn": "zh-Hans",
    "zh-sg": "zh-Hans",
    "zh-hans": "zh-Hans",
    "zt": "zh-Hant",
    "zh-tw": "zh-Hant",
    "zh-hk": "zh-Hant",
    "zh-hant": "zh-Hant",
    "pb": "pt-BR",
    "pt-br": "pt-BR",
}
_WITHOUT_SPACES = {"Hans", "Hant", "Jpan", "Thai", "Laoo", "Khmr", "Mymr"}


def canonical(code: str) -> str:
    """One spelling for each language.

    >>> canonical("zh"), canonical("zh_CN"), canonical("EN")
    ('zh-Hans', 'zh-Hans', 'en')
    """
    plain = code.strip().replace("_", "-").lower()
    return _ALIASES.get(plain, plain) or UNDETERMINED


@cache
def name(code: str, in_language: str = "en") -> str:
    """What people call a language; the code itself if nobody knows it."""
    try:
        found = Locale.parse(code, sep="-").get_display_name(in_language)
    except (ValueError, UnknownLocaleError):
        found = None
    if not found:
        return "Text" if code == UNDETERMINED else code
    return found.replace(" (Simplified)", "") if code == "zh-Hans" else found


@cache
def script(code: str) -> str:
    """The script a language is written in, as ISO 15924 says: Latn, Cyrl, Hans, …

    >>> script("en"), script("zh-Hans"), script("ja")
    ('Latn', 'Hans', 'Jpan')
    """
    parts = code.split("-")
    if len(parts) > 1 and len(parts[1]) == 4:
        return parts[1].title()
    likely = get_global("likely_subtags").get(parts[0], "")
    return next((part for part in likely.split("_")[1:] if len(part) == 4), "")


def has_spaces(code: str) -> bool:
    """Does this language put spaces between words?"""
    return script(code) not in _WITHOUT_SPACES
