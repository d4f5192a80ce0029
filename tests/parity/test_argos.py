"""An .argosmodel in the hands of the real argostranslate."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from glassformer.bundle import Bundle
from glassformer.engine import TorchEngine
from glassformer.formats import argos
from glassformer.search.scoring import SearchOptions
from glassformer.text.packages import cache_directory
from tests.serving import SENTENCES, toy_bundle

# Without their dependencies: torch is here already, and another one must not come. spaCy is optional there.
PACKAGES = ["argostranslate==1.11.0", "minisbd==0.9.5", "stanza==1.10.1", "sacremoses==0.2.0"]
PACKAGES += ["emoji", "protobuf", "requests", "urllib3", "charset-normalizer", "certifi"]
PACKAGES += ["onnxruntime", "flatbuffers", "joblib"]

SCRIPT = """
import json, sys
from argostranslate import package, translate

package.install_from_path(sys.argv[1])
languages = {language.code: language for language in translate.get_installed_languages()}
translation = languages["en"].get_translation(languages["zh"])

class Whole:
    # Its own splitter would be downloaded; each text here is one sentence.
    def split_sentences(self, text):
        return [text]

translation.underlying.sentencizer = Whole()
found = [translation.translate(text) for text in json.load(sys.stdin)]
print(json.dumps({"name": str(translation.underlying), "said": found}))
"""


@pytest.fixture(scope="module")
def argostranslate() -> Path:
    """A folder with the package, installed once and kept."""
    folder = cache_directory() / "tests" / "argostranslate-1.11.0"
    if not (folder / "complete").is_file():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder)]
        done = subprocess.run([*command, *PACKAGES], capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"argostranslate can't be installed here: {done.stderr.strip()[-200:]}")
        (folder / "complete").touch()
    return folder


@pytest.mark.full
def test_argos_installs_it_and_translates_as_we_do(argostranslate: Path, tmp_path: Path) -> None:
    bundle = Bundle.load(toy_bundle())
    path = tmp_path / "en_zh.argosmodel"
    argos.export_bundle(bundle, path, "float32")
    places = {f"XDG_{kind}_HOME": str(tmp_path / kind) for kind in ("DATA", "CONFIG", "CACHE")}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(path)],
        input=json.dumps(SENTENCES),
        env={**os.environ, **places, "PYTHONPATH": str(argostranslate), "ARGOS_COMPUTE_TYPE": "float32"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["name"] == "English → Chinese"
    search = SearchOptions(beams=4, length_penalty=0.2)  # what Argos asks for
    sources = bundle.tokenizers.source.encode_batch(SENTENCES)
    ours = TorchEngine(bundle.model).translate_ids(sources, search, max_lengths=[256] * len(sources))
    assert found["said"] == bundle.tokenizers.target.decode_batch(one[0].tokens for one in ours)
    assert len(set(found["said"])) > 40
