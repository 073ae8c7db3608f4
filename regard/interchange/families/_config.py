"""Typed reads of a foreign config.json: every value is checked, and a key that nobody reads is known by name."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

from regard.errors import UserError, suggestion

_TEXT = 100
MOST = 1 << 20

_IRRELEVANT = """
_name_or_path auto_map chunk_size_feed_forward classif_dropout classifier_dropout dtype encoder_layerdrop
decoder_layerdrop gradient_checkpointing id2label init_std initializer_factor label2id num_hidden_layers num_labels
_num_labels output_attentions output_hidden_states output_past problem_type pruned_heads return_dict save_step
task_specific_params tokenizer_class torch_dtype torchscript transformers_version use_bfloat16 use_cache bos_token_id
sep_token_id cls_token_id tie_encoder_decoder cross_attention_hidden_size add_cross_attention finetuning_task prefix
extra_pos_embeddings force_bos_token_to_be_generated do_blenderbot_90_layernorm student_decoder_layers
student_encoder_layers replacing_rate max_source_positions unk_token_id vocab_type layerdrop lm_label_smoothing d_inner
tf_legacy_loss attn_implementation _attn_implementation_autoset tie_last_hidden_states n_positions
"""
_GENERATION = """
_from_model_config bad_words_ids decoder_start_token_id diversity_penalty do_sample early_stopping
encoder_no_repeat_ngram_size eos_token_id exponential_decay_length_penalty forced_bos_token_id forced_eos_token_id
length_penalty max_length max_new_tokens min_length no_repeat_ngram_size num_beam_groups num_beams
num_return_sequences pad_token_id remove_invalid_values renormalize_logits repetition_penalty return_dict_in_generate
output_scores suppress_tokens begin_suppress_tokens temperature top_k top_p typical_p
"""
IRRELEVANT = frozenset(_IRRELEVANT.split())
"""How a config came about, and what only training, other tasks or transformers' own interface depend on."""
GENERATION = frozenset(_GENERATION.split())
"""Keys of generation_config.json that older configs hold, too."""


class Config:
    """A config by key. What is read is remembered, so that the rest can be named."""

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        self.values, self.where = values, where
        self._read: set[str] = set()

    def refuse(self, key: str, why: str) -> UserError:
        return UserError(f"{self.where}: {key} = {_shown(self.values.get(key))}: {why}")

    def get(self, key: str, default: Any = None) -> Any:
        """A value as it is; a null counts as missing."""
        self._read.add(key)
        value = self.values.get(key)
        return default if value is None else value

    def integer(self, key: str, default: int | None = None, least: int = 0, most: int = MOST) -> int:
        value = self.get(key, default)
        if value is None:
            raise UserError(f"{self.where}: {key} is missing; take another copy of the folder")
        if type(value) is not int or not least <= value <= most:
            raise self.refuse(key, f"a whole number from {least} to {most:,} is needed")
        return value

    def optional_integer(self, key: str, least: int = 0, most: int = MOST) -> int | None:
        return None if self.get(key) is None else self.integer(key, least=least, most=most)

    def number(self, key: str, default: float, least: float = 0.0, most: float = 1.0) -> float:
        value = self.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise self.refuse(key, "a number is needed")
        if not least <= value <= most:
            raise self.refuse(key, f"a number from {least:g} to {most:g} is needed")
        return float(value)

    def dropout(self, key: str, default: float) -> float:
        value = self.number(key, default)
        if value == 1:
            raise self.refuse(key, "a number below 1 is needed")
        return value

    def flag(self, key: str, default: bool) -> bool:
        value = self.get(key, default)
        if not isinstance(value, bool):
            raise self.refuse(key, "true or false is needed")
        return value

    def choice(self, key: str, default: str, known: Mapping[str, str]) -> str:
        """Our name for a value."""
        value = self.get(key, default)
        if not isinstance(value, str) or value not in known:
            raise self.refuse(key, f"not known here{suggestion(_shown(value), known)}")
        return known[value]

    def must_be(self, key: str, value: Any) -> None:
        """A key that old configs state although the architecture fixes it: any other value contradicts it."""
        if self.get(key, value) != value:
            raise self.refuse(key, f"this architecture has {_shown(value)}")

    def unread(self, also_known: Collection[str] = ()) -> list[str]:
        """Keys that nothing read and nothing is known of."""
        known = self._read | IRRELEVANT | GENERATION | set(also_known)
        return sorted(str(key) for key in self.values if key not in known)


def _shown(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= _TEXT else text[:_TEXT] + "..."
