"""The interface of a family: what one architecture of Hugging Face is in our terms, and back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from regard.config import Languages, Recipe
from regard.data.tokenizer._base import Tokenizer
from regard.interchange.families._config import Config
from regard.interchange.families._entry import Entry
from regard.interchange.families._vocabulary import Vocabulary
from regard.interchange.read.foreign_folder import ForeignFolder

ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
}
"""Their names of activations -> ours."""
THEIR_ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu_tanh": "gelu_new", "silu": "silu", "tanh": "tanh"}


@dataclass(frozen=True)
class Tables:
    """Their names of the token embeddings and of the output layer."""

    shared: str
    source: str
    target: str
    output: str


@dataclass
class Text:
    """How a model reads and writes text."""

    tokenizer: Tokenizer
    source: Vocabulary
    target: Vocabulary
    """The same as `source` if the languages share one."""
    languages: Languages = field(default_factory=Languages)
    source_language: str = ""
    target_language: str = ""
    limit: int | None = None
    """Tokens of the longest source that the tokenizer's config states."""


class Family(ABC):
    """One architecture. `variant` is the config's model_type."""

    model_types: ClassVar[Collection[str]]
    architectures: ClassVar[Collection[str]]
    """Class names that a config may state for a model that translates."""
    tables: ClassVar[Tables]
    computed: ClassVar[tuple[str, ...]] = ()
    """Endings of the names of tensors that hold what we compute."""
    prefix: ClassVar[str] = ""
    """What a file of the bare model leaves out of the names."""

    def __init__(self, variant: str) -> None:
        self.variant = variant

    @abstractmethod
    def model(self, config: Config, share: bool, tie: bool) -> dict[str, Any]:
        """The recipe's model section. Refuses by name what a config states and we do not have."""

    @abstractmethod
    def entries(self, model: Mapping[str, Any], scaled_output: bool = False) -> list[Entry]:
        """Our parameters and their tensors, for a resolved model section. The tables of `tables` are not among them."""

    @abstractmethod
    def text(self, config: Config, generation: Config, files: ForeignFolder, note: Callable[[str], None]) -> Text:
        """Tokenizer, vocabulary and languages."""

    @abstractmethod
    def longest_source(self, config: Config) -> int:
        """Positions that a source may have."""

    def scaled_output(self, config: Config) -> bool:
        """Whether the output layer's input is divided by sqrt(width)."""
        return False

    def ties(self, config: Config) -> bool | None:
        """Whether the config says that the output layer is the target's embedding; None: the tensors decide."""
        return config.flag("tie_word_embeddings", True)

    @abstractmethod
    def why_not(self, recipe: Recipe) -> str:
        """Why this family cannot hold a model with this recipe exactly; empty if it can."""

    @abstractmethod
    def config(self, recipe: Recipe, special: Mapping[str, int], sizes: tuple[int, int]) -> dict[str, Any]:
        """Their config of a model with this recipe; `sizes` are rows of the source's and the target's table."""


def no_transformer(recipe: Recipe) -> str:
    """Why a recipe is not that of a Transformer from text to text with multi-head attention; empty if it is."""
    model = recipe.model
    if model.get("kind") != "seq2seq" or model.get("stem", {}).get("kind") != "tokens":
        return "only a model that reads and writes text"
    for part in (model.get("encoder", {}), model.get("decoder", {})):
        if part.get("kind") != "transformer":
            return f"only Transformers, not {part.get('kind')}"
        attention = part.get("attention")
        if (attention.get("kind") if isinstance(attention, dict) else attention) != "multi_head":
            return "only multi-head attention"
        if isinstance(attention, dict) and attention.keys() - {"kind", "dropout"}:
            return "only multi-head attention with as many keys as queries"
    return ""
