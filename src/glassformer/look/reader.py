"""See through the rest of the family: the walk, and a page with every layer and head.

Models that do not translate have no beams and no two sides; what is left is what they share with the others:
the attention of each head, and the way from token ids to probabilities, one equation at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

import torch
from torch import Tensor

from glassformer.bundle import Bundle
from glassformer.errors import RequestError
from glassformer.look.explain import Explanation, Language, numbers_of, shape_of
from glassformer.look.page import texts
from glassformer.look.walk import walk_reader
from glassformer.model.families import Classifier, ImageClassifier, LanguageModel, Reader, only_labels
from glassformer.model.record import record

LONGEST = 64
"""tokens whose attention is drawn"""
CELL = 9
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
STYLE = """
:root { color-scheme: light dark; --ink: #23282e; --paper: #fdfcf9; --accent: #0b7a75 }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e6e1; --paper: #16191d; --accent: #5cc8c2 } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2rem auto;
  max-width: 70rem; padding: 0 1rem }
.grid { display: flex; flex-wrap: wrap; gap: .8rem } figure { margin: 0 } figcaption { font-size: .8rem }
rect { fill: var(--accent) } .frame { fill: none; stroke: var(--ink); stroke-opacity: .25 }
table { border-collapse: collapse } td { padding: .1rem .8rem .1rem 0; vertical-align: top }
code { font-size: .85rem } svg:focus, svg:hover { outline: 2px solid var(--accent) }
"""


@dataclass(frozen=True)
class ReaderExplanation(Explanation):
    """The walk of a model that does not translate; `translation` is what it says in the end."""

    def conclusion(self, language: Language = "en") -> str:
        return self.translation


def explain_reader(bundle: Bundle[Reader], text: str, *, step: int = 1) -> Explanation:
    """Walk through the model for one text; `step` chooses whose row is shown (a language model's)."""
    ids, pieces = read_ids(bundle, text)
    if not 1 <= step <= len(pieces):
        raise RequestError(f"there is no step {step}: the text has the steps 1 to {len(pieces)}")
    said = "; ".join(f"{before}: {names}" for before, names in _said(bundle, ids, pieces))
    return ReaderExplanation(pieces, pieces, said, step, walk_reader(bundle.model, ids))


def read_ids(bundle: Bundle[Reader], text: str) -> tuple[list[int], list[str]]:
    """What the model reads, and what its tokens are called."""
    tokenizer, vocabulary = bundle.tokenizers.source, bundle.config.vocabulary
    own = tokenizer.encode(text)
    if not own:
        raise RequestError("there is nothing to look at: the text is empty")
    if len(own) >= bundle.model.max_length:
        raise RequestError(f"the text has {len(own)} tokens; this model reads {bundle.model.max_length - 1}")
    ids = [vocabulary.start, *own] if isinstance(bundle.model, LanguageModel) else [*own, vocabulary.eos]
    if isinstance(bundle.model, ImageClassifier):
        with torch.inference_mode():
            count = bundle.model.embedding(torch.tensor([own])).shape[1]
        return ids, [f"patch {number + 1}" for number in range(count)]
    return ids, tokenizer.pieces(ids)


@torch.inference_mode()
def _said(bundle: Bundle[Reader], ids: Sequence[int], pieces: Sequence[str]) -> Iterator[tuple[str, str]]:
    """What the model makes of it: after or at each token, or of the whole."""
    model, ids_BT = bundle.model, torch.tensor([list(ids)])
    lengths_B = torch.tensor([len(ids)])
    if isinstance(model, Classifier):
        yield "the label", _likeliest(bundle, model.decide(ids_BT, lengths_B)[0])
        return
    logits_TV = model.output(model.states(ids_BT, lengths_B))[0]
    if bundle.config.task == "tag":
        logits_TV = only_labels(logits_TV, bundle.config.vocabulary)
    for piece, logits_V in zip(pieces, logits_TV, strict=True):
        yield (f"after {piece}" if isinstance(model, LanguageModel) else piece), _likeliest(bundle, logits_V)


def _likeliest(bundle: Bundle[Reader], logits_V: Tensor, count: int = 3) -> str:
    probs, ids = logits_V.softmax(-1).topk(count)
    names = bundle.tokenizers.target.pieces(ids.tolist())
    return ", ".join(f"{name} {prob:.2f}" for name, prob in zip(names, probs.tolist(), strict=True))


def reader_page(bundle: Bundle[Reader], text: str) -> str:
    """One self-contained file: what is said, each layer's heads, the walk. No script, no network."""
    ids, pieces = read_ids(bundle, text)
    ids_BT = torch.tensor([ids])
    with torch.inference_mode(), record() as recorder:
        bundle.model.states(ids_BT, torch.tensor([len(ids)]))
    grids = [
        _grid(place, weights[0][0].float(), pieces) for place, weights in sorted(recorder.attention.items())
    ]
    said = "".join(
        f"<tr><td>{escape(before)}</td><td>{escape(names)}</td></tr>"
        for before, names in _said(bundle, ids, pieces)
    )
    title = escape(f"{bundle.config.task.replace('_', ' ')}: {text[:80]}")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{STYLE}</style></head><body><h1>{title}</h1>"
        f"<h2>What it says</h2><table>{said}</table><h2>Every layer and head</h2>"
        "<p>A row looks at its columns; the darker, the more. Attention, not explanation.</p>"
        f"{''.join(grids)}<h2>Under the hood</h2>{_walk(bundle, ids)}</body></html>"
    )


def _grid(place: str, weights_HTS: Tensor, pieces: Sequence[str]) -> str:
    heads = "".join(
        f"<figure>{_matrix(weights_TS, pieces)}<figcaption>head {number + 1}</figcaption></figure>"
        for number, weights_TS in enumerate(weights_HTS)
    )
    return f'<h3>{escape(place)}</h3><div class="grid">{heads}</div>'


def _matrix(weights_TS: Tensor, pieces: Sequence[str]) -> str:
    shown = weights_TS[:LONGEST, :LONGEST].tolist()
    size = CELL * len(shown)
    cells = []
    for row, line in enumerate(shown):
        for column, weight in enumerate(line):
            if weight >= 0.02:
                what = escape(f"{pieces[row]} → {pieces[column]}: {weight:.2f}")
                cells.append(
                    f'<rect x="{column * CELL}" y="{row * CELL}" width="{CELL}" height="{CELL}" '
                    f'fill-opacity="{weight:.2f}"><title>{what}</title></rect>'
                )
    frame = f'<rect class="frame" width="{size}" height="{size}"/>'
    return (
        f'<svg width="{size}" height="{size}" role="img" aria-label="attention weights" tabindex="0">'
        f"{frame}{''.join(cells)}</svg>"
    )


def _walk(bundle: Bundle[Reader], ids: Sequence[int]) -> str:
    names = texts()["en"]
    rows = "".join(
        f"<tr><td>{escape(stage.place)}</td><td>{escape(names[f'stage_{stage.key}'])}</td>"
        f"<td><code>{escape(stage.equation)}</code></td><td>{escape(shape_of(stage))}</td>"
        f"<td><code>{escape(numbers_of(stage, 0))}</code></td></tr>"
        for stage in walk_reader(bundle.model, ids)
    )
    return f"<details open><summary>from ids to probabilities</summary><table>{rows}</table></details>"
