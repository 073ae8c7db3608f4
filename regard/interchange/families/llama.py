"""Llama (Touvron et al. 2023) and models of its kind: Llama 2 and 3, SmolLM2, TinyLlama; Qwen2, with biases.

Pre-norm with RMS norms, rotary positions, a gated silu, and heads that share keys and values in groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from regard.config import Recipe
from regard.interchange.families._base import ACTIVATIONS, THEIR_ACTIVATIONS
from regard.interchange.families._config import Config
from regard.interchange.families._entry import Entry
from regard.interchange.families._language_model import OUTPUT, TABLE, LanguageModelFamily, other_decoder, table_of

__all__ = ["Llama"]

_SCALINGS = ("default", "linear", "llama3")
_KNOWN = {"rope_type", "type", "rope_theta", "factor", "original_max_position_embeddings"}
_KNOWN |= {"low_freq_factor", "high_freq_factor"}
_UNUSED = ("initializer_range", "pretraining_tp", "max_window_layers", "sliding_window", "hidden_size")


class Llama(LanguageModelFamily):
    """The output layer of the larger ones is a table of its own."""

    model_types = ("llama", "qwen2")
    architectures = ("LlamaForCausalLM", "LlamaModel", "Qwen2ForCausalLM", "Qwen2Model")
    table, tokens, tied = "model.embed_tokens.weight", 32000, False

    def name(self, theirs: str) -> str:
        return theirs if theirs.startswith(("model.", "lm_head.")) else f"model.{theirs}"

    def decoder(self, config: Config, tie: bool) -> dict[str, Any]:
        qwen = self.variant == "qwen2"
        config.must_be("use_sliding_window", False)
        for key in _UNUSED:
            config.get(key)
        layers = config.integer("num_hidden_layers", 32, least=1, most=1000)
        kinds = config.get("layer_types")
        if kinds not in (None, ["full_attention"] * layers):
            raise config.refuse("layer_types", "only full_attention is known here")
        width = config.integer("hidden_size", 4096, least=2)
        heads = config.integer("num_attention_heads", 32, least=1)
        kv_heads = config.integer("num_key_value_heads", heads, least=1)
        head_width = config.optional_integer("head_dim", least=2) or width // heads
        if head_width * heads == width:
            head_width = 0
        attention: dict[str, Any] = {"kind": "multi_head"}
        if kv_heads != heads:
            attention["kv_heads"] = kv_heads
        if dropped := config.dropout("attention_dropout", 0.0):
            attention["dropout"] = dropped
        bias = config.flag("mlp_bias", False)
        if (biased := qwen or config.flag("attention_bias", False)) != bias:
            attention["bias"] = biased
        return {
            "kind": "transformer",
            "width": width,
            "layers": layers,
            "heads": heads,
            "head_width": head_width,
            "feed_forward": config.integer("intermediate_size", 11008, least=1),
            "dropout": 0.0,
            "norm": "pre",
            "norm_kind": "rms",
            "norm_epsilon": config.number("rms_norm_eps", 1e-6),
            "activation": config.choice("hidden_act", "silu", ACTIVATIONS),
            "gated": True,
            "bias": bias,
            "position": "none",
            "relative_position": _rotary(config),
            "attention": attention,
            "tie": tie,
            "scale": False,
            "output_bias": True,
        }

    def longest(self, config: Config) -> int:
        return config.integer("max_position_embeddings", 2048, least=2, most=1 << 24)

    def entries(self, decoder: Mapping[str, Any]) -> list[Entry]:
        return list(self._entries(decoder))

    def _entries(self, decoder: Mapping[str, Any]) -> Iterator[Entry]:
        attention, width = table_of(decoder["attention"]), decoder["width"]
        each = decoder["head_width"] or width // decoder["heads"]
        own, shared = decoder["heads"] * each, (attention.get("kv_heads") or decoder["heads"]) * each
        yield Entry(TABLE, (self.table,), rows="target")
        if not decoder["tie"]:
            yield Entry(OUTPUT, (self.output,), rows="target")
        yield Entry("decoder.norm.weight", ("model.norm.weight",))
        for number in range(decoder["layers"]):
            ours, theirs = f"decoder.layers.{number}", f"model.layers.{number}"
            for part in ("weight", "bias") if attention.get("bias", decoder["bias"]) else ("weight",):
                inward = tuple(f"{theirs}.self_attn.{one}_proj.{part}" for one in "qkv")
                yield _stacked(f"{ours}.attention.inward.{part}", inward, (own, shared, shared), width, part)
                outward = f"{ours}.attention.outward.{part}"
                if part == "bias" and self.variant == "qwen2":  # no bias is a bias of 0
                    yield Entry(outward, (), make=lambda: torch.zeros(width))
                else:
                    yield Entry(outward, (f"{theirs}.self_attn.o_proj.{part}",))
            for part in ("weight", "bias") if decoder["bias"] else ("weight",):
                for name, other in (("inward", "up"), ("gate", "gate"), ("outward", "down")):
                    yield Entry(f"{ours}.feed_forward.{name}.{part}", (f"{theirs}.mlp.{other}_proj.{part}",))
            yield Entry(f"{ours}.around_attention.norm.weight", (f"{theirs}.input_layernorm.weight",))
            yield Entry(f"{ours}.around_feed_forward.norm.weight", (f"{theirs}.post_attention_layernorm.weight",))

    def computed(self, decoder: Mapping[str, Any]) -> list[str]:
        return [f"model.layers.{number}.self_attn.rotary_emb." for number in range(decoder["layers"])]

    def why_not(self, recipe: Recipe) -> str:
        decoder = recipe.model["decoder"]
        if why := other_decoder(
            decoder, norm="pre", norm_kind="rms", gated=True, scale=False, embedding_norm=False, position="none"
        ):
            return why
        if (kind := table_of(decoder["relative_position"])["kind"]) != "rotary":
            return f"only rotary positions, not {kind}"
        if (kind := table_of(decoder["attention"])["kind"]) != "multi_head":
            return f"only the attention multi_head, not {kind}"
        if table_of(decoder["attention"]).keys() - {"kind", "kv_heads", "dropout", "bias"}:
            return "only heads of one width"
        return "" if decoder["activation"] in THEIR_ACTIVATIONS else f"no activation {decoder['activation']}"

    def config(self, recipe: Recipe, rows: int, begin: int, end: int) -> dict[str, Any]:
        decoder = recipe.model["decoder"]
        attention, rotary = table_of(decoder["attention"]), table_of(decoder["relative_position"])
        rope = {"rope_type": "default", "rope_theta": rotary.get("base", 10000.0)}
        if (factor := rotary.get("factor", 1.0)) != 1:
            rope |= {"rope_type": "linear", "factor": factor}
            if original := rotary.get("original", 0):
                rope |= {
                    "rope_type": "llama3",
                    "original_max_position_embeddings": original,
                    "low_freq_factor": rotary.get("low", 1.0),
                    "high_freq_factor": rotary.get("high", 4.0),
                }
        return {
            "model_type": "llama",
            "architectures": ["LlamaForCausalLM"],
            "vocab_size": rows,
            "hidden_size": decoder["width"],
            "intermediate_size": decoder["feed_forward"],
            "num_hidden_layers": decoder["layers"],
            "num_attention_heads": decoder["heads"],
            "num_key_value_heads": attention.get("kv_heads") or decoder["heads"],
            "head_dim": decoder["head_width"] or decoder["width"] // decoder["heads"],
            "hidden_act": THEIR_ACTIVATIONS[decoder["activation"]],
            "max_position_embeddings": recipe.data.max_length,
            "rms_norm_eps": decoder["norm_epsilon"],
            "rope_parameters": rope,
            "attention_bias": attention.get("bias", decoder["bias"]),
            "attention_dropout": attention.get("dropout", 0.0),
            "mlp_bias": decoder["bias"],
            "tie_word_embeddings": decoder["tie"],
            "bos_token_id": begin,
            "eos_token_id": end,
            "use_cache": True,
        }


def _stacked(ours: str, theirs: tuple[str, ...], rows: tuple[int, ...], width: int, part: str) -> Entry:
    """W_Q, W_K and W_V, or their biases, one after the other: they differ in their rows."""
    shapes = tuple((one, width) if part == "weight" else (one,) for one in rows)

    def make(*parts: Tensor) -> Tensor:
        return torch.cat(parts)

    return Entry(ours, theirs, shapes=shapes, make=make, split=lambda whole: whole.split(rows))


def _rotary(config: Config) -> dict[str, Any]:
    """Rotary positions. Older configs have rope_theta and rope_scaling, newer ones rope_parameters."""
    table: dict[str, Any] = {"rope_theta": config.get("rope_theta")}
    for key in ("rope_scaling", "rope_parameters"):
        value = config.get(key, {})
        if not isinstance(value, dict):
            raise config.refuse(key, "a table is needed")
        table |= value
    rope = Config({key: value for key, value in table.items() if value is not None}, config.where)
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind not in _SCALINGS:
        raise rope.refuse("rope_type", f"rotary positions are known here as: {', '.join(_SCALINGS)}")
    if unknown := rope.values.keys() - _KNOWN:
        raise rope.refuse(min(unknown), "not known here")
    made: dict[str, Any] = {"kind": "rotary", "base": rope.number("rope_theta", 10000.0, least=1.01, most=1e12)}
    if kind == "default":
        return made
    made["factor"] = rope.number("factor", 1.0, least=1.0, most=1e6)
    if kind == "llama3":
        made["original"] = rope.integer("original_max_position_embeddings", least=1, most=1 << 24)
        made["low"] = rope.number("low_freq_factor", 1.0, least=1e-3, most=1e6)
        made["high"] = rope.number("high_freq_factor", 4.0, least=1e-3, most=1e6)
    return made
