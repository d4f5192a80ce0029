"""Shared by all tests: one thread each (they run side by side), and the corpora beside the repository."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)
settings.register_profile("glassformer", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("glassformer")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real corpora for experiments, in a folder beside the repository; a user's machine has none."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("no folder shared/data beside the repository")
    return folder
