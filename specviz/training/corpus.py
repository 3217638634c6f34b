"""Read the corpus: training and held-out documents, and token streams for batches.

A document's hash decides whether it is held out. So the split is the same on every machine, and
copies of a document are either all held out or all in the training set.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer

from specviz.errors import TrainingError
from specviz.training.recipe import Stage
from specviz.values import Value

END_OF_TEXT = "<|endoftext|>"
HELD_OUT_SHARE = 0.02
_DOCUMENT_START_SHARE = 0.5  # share of sequences that start where a document starts, as prompts do


class Source(Value):
    """One corpus file, split into training and held-out documents."""

    name: str
    training: tuple[str, ...]
    held_out: tuple[str, ...]

    @property
    def held_out_sha256(self) -> str:
        return hashlib.sha256("\0".join(self.held_out).encode()).hexdigest()


@dataclass(frozen=True, slots=True, eq=False)
class TokenStream:
    """Concatenated documents, each followed by the end-of-text token."""

    ids: torch.Tensor  # [num_tokens] int64
    starts: np.ndarray  # [num_documents], where each document begins


def read_sources(folder: Path) -> dict[str, Source]:
    """Return the sources of a folder, one per ``*.txt`` file, by file name."""
    paths = sorted(folder.glob("*.txt"))
    if not paths:
        raise TrainingError(
            f"No corpus in {folder}: the folder has no .txt file.",
            remedy=f"Give a folder of text files whose documents are separated by {END_OF_TEXT}.",
        )
    return {path.stem: _read_source(path) for path in paths}


def _read_source(path: Path) -> Source:
    pieces = (piece.strip() for piece in path.read_text(encoding="utf-8").split(END_OF_TEXT))
    documents = [piece for piece in pieces if piece]
    training = tuple(text for text in documents if not _is_held_out(text))
    held_out = tuple(text for text in documents if _is_held_out(text))
    return Source(name=path.stem, training=training, held_out=held_out)


def _is_held_out(text: str) -> bool:
    head = hashlib.sha256(text.encode()).digest()[:4]
    return int.from_bytes(head, "big") < HELD_OUT_SHARE * 2**32


def encode_documents(tokenizer: Tokenizer, documents: tuple[str, ...]) -> TokenStream:
    end = tokenizer.token_to_id(END_OF_TEXT)
    rows = [[*encoding.ids, end] for encoding in tokenizer.encode_batch(list(documents))]
    return stream_of(rows)


def stream_of(rows: list[list[int]]) -> TokenStream:
    lengths = [len(row) for row in rows]
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]]) if rows else np.zeros(0)
    flat = torch.tensor([token for row in rows for token in row], dtype=torch.int64)
    return TokenStream(flat, starts.astype(np.int64))


def draw_batch(streams: dict[str, TokenStream], stage: Stage, seed: int, step: int) -> torch.Tensor:
    """Return a batch of the stage, `[batch, length + 1]`; (seed, step) alone determine it."""
    rng = np.random.default_rng([seed, step])
    names = [name for name in stage.sources if name in streams]
    weights = np.array([stage.sources[name] for name in names])
    chosen = rng.choice(len(names), size=stage.batch, p=weights / weights.sum())
    rows = [_draw_row(streams[names[index]], stage.length + 1, rng) for index in chosen]
    return torch.stack(rows)


def _draw_row(stream: TokenStream, length: int, rng: np.random.Generator) -> torch.Tensor:
    last = len(stream.ids) - length
    if last < 0:
        return stream.ids.repeat(length // max(1, len(stream.ids)) + 1)[:length]
    at_document = rng.random() < _DOCUMENT_START_SHARE
    start = int(rng.choice(stream.starts)) if at_document else int(rng.integers(last + 1))
    start = min(start, last)
    return stream.ids[start : start + length]
