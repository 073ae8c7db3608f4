"""The labels that a config names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from regard.data.target.label import MOST, Label
from regard.interchange.families._config import Config
from regard.terminal_text import escape_control_characters, one_line

_LONGEST_LABEL = 200
_ONE = "single_label_classification"


def labels_of(config: Config, problems: bool) -> Label:
    """The names of the labels, in the order of the head's rows. `problems`: a classifier may have been made for other
    kinds of problems, which are refused."""
    if problems and config.get("problem_type", _ONE) != _ONE:
        raise config.refuse("problem_type", "only single_label_classification is known here")
    config.get("label2id")
    table = config.get("id2label")
    count = config.optional_integer("num_labels", least=1, most=MOST)
    if table is None:
        names: Sequence[Any] = [f"LABEL_{number}" for number in range(2 if count is None else count)]
    elif isinstance(table, dict) and set(table) == {str(number) for number in range(len(table))}:
        names = [table[str(number)] for number in range(len(table))]
    else:
        raise config.refuse("id2label", "a name for each number from 0 on is needed")
    if any(not isinstance(name, str) or not name.strip() or len(name) > _LONGEST_LABEL for name in names):
        raise config.refuse("id2label", "a name for each number from 0 on is needed")
    plain = [escape_control_characters(one_line(name)) for name in names]
    if len(set(plain)) < len(plain):
        raise config.refuse("id2label", "two labels have one name")
    if count is not None and count != len(plain):
        raise config.refuse("num_labels", f"id2label names {len(plain):,} labels")
    if not 2 <= len(plain) <= MOST:
        raise config.refuse("id2label", f"2 to {MOST:,} labels are needed; a model with one predicts a number")
    return Label(plain)
