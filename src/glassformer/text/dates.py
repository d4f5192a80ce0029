"""A corpus that needs no download: dates as people write them → ISO 8601, in two dozen locales.

`samedi 4 mars 2028` → `2028-03-04`. Names and patterns come from CLDR (Unicode licence) through Babel. It is
a pure function of count, seed and Babel's version, and it is learnt in minutes: the demo that always works.
"""

from __future__ import annotations

import datetime
import random
import re
from collections.abc import Iterator
from typing import Any

from glassformer.errors import DataError

FIRST, LAST = datetime.date(1900, 1, 1), datetime.date(2099, 12, 31)

# Croatian is missing on purpose: its listopad is October, and Polish and Czech listopad is November.
LOCALES = (
    *("ar", "cs", "de", "el", "en", "en_GB", "es", "fi", "fr", "hi", "hu", "id", "it"),
    *("ja", "ko", "nl", "pl", "pt", "ru", "sv", "tr", "uk", "vi", "zh"),
)
FORMATS = ("full", "long", "medium", "short")
SKELETONS = ("yMMMd", "yMMMEd", "yMMMMd", "yMd")
MOST = 1_000_000
"""about a fifth of all the sources there are: more would make the generator slow, and teach nothing new"""


def date_pairs(count: int, seed: int = 1) -> Iterator[tuple[str, str]]:
    """`count` different sources, each with its ISO date, in random order."""
    if not 0 <= count <= MOST:
        raise DataError(f"dates can make up to {MOST:,} pairs, not {count:,}")
    patterns = _patterns()
    days = (LAST - FIRST).days + 1
    generator = random.Random(seed)
    seen: set[str] = set()
    while len(seen) < count:
        locale, pattern = generator.choice(patterns)
        day = FIRST + datetime.timedelta(days=generator.randrange(days))
        source = str(pattern.apply(day, locale))
        if source not in seen:
            seen.add(source)
            yield source, day.isoformat()


def _patterns() -> list[tuple[Any, Any]]:
    """Every (locale, pattern) whose output says one date only."""
    from babel import Locale

    found = []
    for code in LOCALES:
        locale = Locale.parse(code)
        known = [locale.date_formats[name] for name in FORMATS]
        known += [locale.datetime_skeletons[name] for name in SKELETONS if name in locale.datetime_skeletons]
        unique = {pattern.pattern: pattern for pattern in known if not _ambiguous(pattern.pattern)}
        found += [(locale, pattern) for pattern in unique.values()]
    return found


def _ambiguous(pattern: str) -> bool:
    """True for two-digit years, and for numbers in American order: 3/4/2019 is read as day, month, year."""
    letters = re.sub(r"'[^']*'", "", pattern)
    if re.search(r"(?<!y)yy(?!y)", letters):
        return True
    if "MMM" in letters:
        return False
    return "".join(dict.fromkeys(letter for letter in letters if letter in "yMd")) not in ("yMd", "dMy")
