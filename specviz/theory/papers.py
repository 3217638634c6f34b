"""Numbers that papers report, as printed, each with its source. Nothing is computed here.

`LEVIATHAN` joins tables 2 and 4 of Leviathan et al. 2023. The target is T5-XXL (11B) on TPU-v4 at
batch 1, the drafts are T5-small (77M), T5-base (250M) and T5-large (800M). The tasks are
translation from English to German, and CNN/DailyMail.

`CHINCHILLA` is Chen et al. 2023: a target of 70B at 14.1 ms per token, a draft of 4B at 1.8 ms, 16
TPU v4, batch 1, gamma 4. The paper reports no alpha.

`SPEC_BENCH` is the leaderboard of Spec-Bench (Xia et al. 2024): Vicuna-7B, greedy, batch 1, A100,
with a draft model (SpS) and with prompt lookup (PLD).
"""

from __future__ import annotations

from dataclasses import dataclass

from specviz.values import Value


@dataclass(frozen=True, slots=True)
class LeviathanRow:
    """An experiment of Leviathan et al. 2023; ``expected``: the speedup by the paper's formula."""

    task: str
    draft: str
    temperature: float
    gamma: int
    alpha: float
    c: float
    expected: float
    measured: float

    @property
    def label(self) -> str:
        return f"{self.task}, {self.draft}, T={self.temperature:g}"


class ChinchillaRow(Value):
    """One task of Chen et al. 2023, table 1: ms per token, and speedup over the target alone."""

    task: str
    milliseconds: float
    speedup: float


class PaperLetters(Value):
    """The letters that a paper uses for the distributions of draft and target."""

    paper: str
    draft: str
    target: str


PAPER_LETTERS = (
    PaperLetters(paper="Leviathan et al. 2023", draft="q", target="p"),
    PaperLetters(paper="Chen et al. 2023", draft="p", target="q"),
    PaperLetters(paper="Yin et al. 2024", draft="p", target="q"),
)
LEVIATHAN_SOURCE = "Leviathan et al. 2023, tables 2 and 4"
CHINCHILLA_SOURCE = "Chen et al. 2023, table 1"
SPEC_BENCH_SOURCE = "Spec-Bench (Xia et al. 2024), leaderboard: Vicuna-7B, greedy, A100"
CHINCHILLA_TARGET_MS = 14.1
CHINCHILLA_DRAFT_MS = 1.8
CHINCHILLA_GAMMA = 4

# task, draft, temperature, gamma, alpha, c, expected, measured
LEVIATHAN = (
    LeviathanRow("EnDe", "T5-small", 0, 7, 0.75, 0.02, 3.2, 3.4),
    LeviathanRow("EnDe", "T5-base", 0, 7, 0.80, 0.04, 3.3, 2.8),
    LeviathanRow("EnDe", "T5-large", 0, 7, 0.82, 0.11, 2.5, 1.7),
    LeviathanRow("EnDe", "T5-small", 1, 7, 0.62, 0.02, 2.3, 2.6),
    LeviathanRow("EnDe", "T5-base", 1, 5, 0.68, 0.04, 2.4, 2.4),
    LeviathanRow("EnDe", "T5-large", 1, 3, 0.71, 0.11, 2.0, 1.4),
    LeviathanRow("CNNDM", "T5-small", 0, 5, 0.65, 0.02, 2.4, 3.1),
    LeviathanRow("CNNDM", "T5-base", 0, 5, 0.73, 0.04, 2.6, 3.0),
    LeviathanRow("CNNDM", "T5-large", 0, 3, 0.74, 0.11, 2.0, 2.2),
    LeviathanRow("CNNDM", "T5-small", 1, 5, 0.53, 0.02, 1.9, 2.3),
    LeviathanRow("CNNDM", "T5-base", 1, 3, 0.55, 0.04, 1.8, 2.2),
    LeviathanRow("CNNDM", "T5-large", 1, 3, 0.56, 0.11, 1.6, 1.7),
)
CHINCHILLA = (
    ChinchillaRow(task="XSum, nucleus 0.8", milliseconds=7.52, speedup=1.92),
    ChinchillaRow(task="XSum, greedy", milliseconds=7.00, speedup=2.01),
    ChinchillaRow(task="HumanEval", milliseconds=5.73, speedup=2.46),
)
# speedup over the target alone, by drafter and task
SPEC_BENCH = {
    "draft model": {"translation": 1.13, "summarisation": 1.62, "conversation": 1.66},
    "prompt lookup": {"translation": 1.04, "summarisation": 2.43},
}
