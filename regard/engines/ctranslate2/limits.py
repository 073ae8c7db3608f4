"""Which models CTranslate2 can run, judged by their recipe alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from regard.config import Recipe

ACTIVATIONS = {"relu": 0, "gelu_tanh": 1, "silu": 2, "gelu": 3, "tanh": 5}
"""CTranslate2's numbers of the activations that both have."""
POSITIONS = ("sinusoidal", "sinusoidal_halves", "learned", "none", "shifted")
MAX_POSITIONS = 1 << 14
KEYS = {
    "stem": {"kind", "width", "position", "dropout", "scale", "embedding_norm", "word_dropout"} | {"norm_epsilon"},
    "encoder": {"kind", "width", "layers", "heads", "feed_forward", "dropout", "norm", "activation", "attention"}
    | {"norm_kind", "norm_epsilon", "gated", "bias", "head_width", "relative_position"},
}
KEYS["decoder"] = KEYS["encoder"] | {"position", "tie", "scale", "embedding_norm", "output_bias"}
"""What a recipe says of each part. Any other key may change what the part computes."""


def why_not(recipe: Recipe) -> str:
    """Why CTranslate2 cannot run a model with this recipe; empty if it can."""
    tree = recipe.model
    if recipe.task != "translate" or tree.get("kind") != "seq2seq":
        return f"CTranslate2 runs models that translate; this one is made to {recipe.task}"
    stem, encoder, decoder = (table(tree.get(part)) for part in ("stem", "encoder", "decoder"))
    for part, spec, kind in (
        ("stem", stem, "tokens"),
        ("encoder", encoder, "transformer"),
        ("decoder", decoder, "transformer"),
    ):
        if spec.get("kind") != kind:
            return f"CTranslate2 runs Transformers alone; this model's {part} is of the kind {spec.get('kind')}"
        if unknown := spec.keys() - KEYS[part]:
            return f"model.{part}.{min(unknown)} is unknown to the conversion for CTranslate2"
    if unknown := tree.keys() - {"kind", "share", *KEYS}:
        return f"model.{min(unknown)} is unknown to the conversion for CTranslate2"
    if len({spec.get("width") for spec in (stem, encoder, decoder)}) > 1:  # CTranslate2 does not check this
        return "the parts of this model differ in width"
    if any(spec.get("width", 0) % spec.get("heads", 1) and not spec.get("head_width") for spec in (encoder, decoder)):
        return "the width of this model cannot be divided among its heads"
    for spec in (encoder, decoder):
        if spec.get("activation") not in ACTIVATIONS:
            return f"CTranslate2 has no activation {spec.get('activation')}; it has {', '.join(sorted(ACTIVATIONS))}"
        attention = table(spec.get("attention", "multi_head"))
        if attention.get("kind") != "multi_head" or attention.keys() - {"kind", "dropout"}:
            return f"CTranslate2 has only multi-head attention; this model's is {attention.get('kind')}"
    for spec, stack in ((stem, encoder), (decoder, decoder)):
        position = table(spec.get("position"))
        if position.get("kind") not in POSITIONS:
            return f"CTranslate2 has no positions of the kind {position.get('kind')}"
        relative = table(stack.get("relative_position", "none")).get("kind")
        if relative not in ("none", "buckets"):
            return f"CTranslate2 has no relative positions of the kind {relative}"
        if relative == "buckets" and position.get("kind") != "none":
            return "CTranslate2 has no other positions beside relative ones"
    if len(epsilons := norm_epsilons(recipe)) > 1:
        return f"CTranslate2 has one norm_epsilon for all norms of a model; this one has {min(epsilons)} and more"
    if positions_needed(recipe) > MAX_POSITIONS:
        return f"CTranslate2's table of positions has {MAX_POSITIONS:,} rows at most"
    return ""


def norm_epsilons(recipe: Recipe) -> set[float]:
    """What the norms of a model add to a variance; that after the decoder's embedding has 1e-5."""
    tree = recipe.model
    parts = ("encoder", "decoder", *(["stem"] if tree["stem"].get("embedding_norm") else []))
    found = {float(tree[part].get("norm_epsilon", 1e-5)) for part in parts}
    return found | ({1e-5} if tree["decoder"].get("embedding_norm") else set())


def positions_needed(recipe: Recipe) -> int:
    """Positions of the longest source and of the longest output it can have, END included."""
    source = recipe.data.max_length
    return max(source, int(source * recipe.decoding.length_factor) + recipe.decoding.length_extra) + 1


def table(spec: Any) -> dict[str, Any]:
    return dict(spec) if isinstance(spec, Mapping) else {"kind": spec}


def longest_output(recipe: Recipe) -> int:
    """The most tokens of an output: learned positions end somewhere."""
    spec = [table(recipe.model[part]["position"]) for part in ("stem", "decoder")]
    learned = [int(position.get("length", 512)) for position in spec if position["kind"] == "learned"]
    return min(learned, default=positions_needed(recipe)) - 1  # BEGIN, when it is scored or aligned
