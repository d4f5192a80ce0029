"""Keep large blocks of memory instead of handing them back after every batch.

glibc gives blocks above a moving threshold straight back to the system, and the next batch gets fresh pages
that the kernel has to fill with zeros first. Training needs the same blocks again and again: telling malloc
to keep them takes away nine of ten page faults a step (docs/decisions/0010). Elsewhere this does nothing.
"""

from __future__ import annotations

import ctypes
import sys

# From malloc.h; the values are C ints.
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3
ALWAYS = 2**31 - 1
AT_ONCE = 256 * 2**20


def keep_memory() -> bool:
    """Tell glibc's malloc never to give large blocks back; says whether it has understood."""
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None)
    if not (hasattr(libc, "gnu_get_libc_version") and hasattr(libc, "mallopt")):
        return False  # musl has neither
    wanted = {M_MMAP_THRESHOLD: ALWAYS, M_TRIM_THRESHOLD: ALWAYS, M_TOP_PAD: AT_ONCE}
    understood = [libc.mallopt(parameter, value) == 1 for parameter, value in wanted.items()]
    return all(understood)
