"""The sections and keys of a recipe: what to train and how, as typed dataclasses.

Every key is declared once, with type, range and description. The keys of the free tables (`model`, `tokenizer`,
`input`, `data.format`) are in part_settings.py; config.py reads and writes recipes.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Annotated, Any

from regard import part_settings
from regard.setting import Setting


def data_root() -> str:
    """The folder of data sets: REGARD_DATA, or `data`."""
    return os.environ.get("REGARD_DATA") or "data"


@dataclass
class Pairs:
    """One entry of `[[data.pairs]]`: parallel text between two languages."""

    from_: Annotated[str, Setting("Code of the language of source, such as en.")] = ""
    to: Annotated[str, Setting("Code of the language of target.")] = ""
    source: Annotated[
        list[str],
        Setting("Its text in the first language, as data.source; empty for an entry that is only validated on."),
    ] = field(default_factory=list)
    target: Annotated[
        list[str], Setting("Its translation, as data.target; empty for a .tsv with both, in columns 1 and 2.")
    ] = field(default_factory=list)
    valid_source: Annotated[list[str], Setting("Text to validate on, in the first language.")] = field(
        default_factory=list
    )
    valid_target: Annotated[list[str], Setting("Translation of valid_source.")] = field(default_factory=list)
    both: Annotated[bool, Setting("Train and validate both directions.")] = True
    weight: Annotated[
        float, Setting("How often its pairs are drawn, relative to those of other entries.", gt=0, le=1000)
    ] = 1.0
    kind: Annotated[str, Setting("Kind of text, such as talk or news; validation scores each kind, too.")] = ""
    tag: Annotated[str, Setting("A token before its sources, such as <bt> for text that was translated back.")] = ""
    without: Annotated[
        list[str], Setting("Lines of a .tsv whose third column is one of these, such as an origin, are left out.")
    ] = field(default_factory=list)
    most: Annotated[int, Setting("Most pairs taken, spread evenly over the files; 0: all.", ge=0, le=10**9)] = 0
    hold_out_valid: Annotated[
        int,
        Setting(
            "Pairs held out for validation, a tenth at most; -1: data.hold_out_valid or, where that is -1, too, 1,000 "
            "unless the entry has valid_source.",
            ge=-1,
        ),
    ] = -1
    hold_out_test: Annotated[
        int, Setting("Pairs held out into RUN/held_out and never trained on; -1: data.hold_out_test.", ge=-1)
    ] = -1


@dataclass
class Data:
    """Where the data are. A file may end in .gz, .xz or .zst; `pairs.tsv#2` means the second column of a .tsv.

    Translation reads pairs of lines from `source` and `target`, or between several languages from the entries of
    `pairs`. All other tasks read examples from `train`, `valid` and
    `test`, by `format`.
    """

    root: Annotated[str, Setting("Folder that relative paths start at; the default is $REGARD_DATA, else data.")] = (
        field(default_factory=data_root)
    )
    source: Annotated[list[str], Setting("Text to translate from, one sentence per line.")] = field(
        default_factory=list
    )
    target: Annotated[list[str], Setting("Its translation, line by line.")] = field(default_factory=list)
    valid_source: Annotated[list[str], Setting("Text to validate on; empty: some pairs are held out.")] = field(
        default_factory=list
    )
    valid_target: Annotated[list[str], Setting("Translation of valid_source.")] = field(default_factory=list)
    pairs: Annotated[
        list[Pairs], Setting("Parallel text of a translator with several directions, in place of source and target.")
    ] = field(default_factory=list)
    temperature: Annotated[
        float,
        Setting(
            "Of data.pairs, each direction is drawn in proportion to its size ** (1 / temperature): 1 as the sizes "
            "are, more: small ones more often.",
            ge=1,
            le=100,
        ),
    ] = 1.0
    copies: Annotated[
        float,
        Setting("Of data.pairs: share of made pairs that copy a name, number or address of the text.", ge=0, le=0.5),
    ] = 0.0
    format: Annotated[
        dict[str, Any], Setting("What reads the examples: its kind and its keys.", keys=part_settings.Format)
    ] = field(default_factory=dict)
    train: Annotated[list[str], Setting("Files of training examples.")] = field(default_factory=list)
    valid: Annotated[list[str], Setting("Files of validation examples; empty: some of train are held out.")] = field(
        default_factory=list
    )
    test: Annotated[list[str], Setting("Files of test examples.")] = field(default_factory=list)
    folds: Annotated[int, Setting("Cross-validation: number of folds; 0: off.", ge=0, le=10_000)] = 0
    fold: Annotated[int, Setting("The fold that is tested on, counted from 0.", ge=0, lt=10_000)] = 0
    hold_out: Annotated[
        list[str], Setting("Which of source the held-out pairs are taken from; empty: all of them.")
    ] = field(default_factory=list)
    hold_out_valid: Annotated[
        int,
        Setting(
            "Pairs or examples held out for validation, besides the valid files; -1: 1,000 (of examples a tenth at "
            "most) if no such files are named, else none.",
            ge=-1,
        ),
    ] = -1
    hold_out_test: Annotated[
        int, Setting("Pairs held out into RUN/held_out/test.source and test.target, never trained on.", ge=0)
    ] = 0
    valid_limit: Annotated[int, Setting("Validation scores at most this many pairs, spread evenly.", ge=1)] = 2000
    max_length: Annotated[
        int,
        Setting(
            "Longer pairs (in tokens) are dropped from training; when translating, longer sentences are split.",
            ge=1,
            le=1 << 17,
        ),
    ] = 128
    max_ratio: Annotated[
        float,
        Setting("Pairs whose token counts differ by more than this factor are dropped (5 tokens of grace).", ge=1),
    ] = 4.0
    drop_duplicates: Annotated[bool, Setting("Drop repeated pairs.")] = True
    drop_identical: Annotated[bool, Setting("Drop pairs with the same text (of more than 3 words) on both sides.")] = (
        True
    )
    drop_wrong_script: Annotated[
        bool, Setting("Drop pairs with a side mostly in another script than that side's usual one.")
    ] = True
    preceded: Annotated[
        bool,
        Setting(
            "Language models: a window within a document begins with the token before it, not with the token that "
            "begins texts; scores are then of predictions with one more token of context."
        ),
    ] = False
    plain_source: Annotated[
        bool, Setting("Typographic apostrophes of the source become ASCII, in training and in use.")
    ] = True
    plain_target: Annotated[
        bool, Setting("Those of the target too, in training: text from many origins has both, and a model learns one.")
    ] = False
    source_end: Annotated[
        bool, Setting("A source ends with </s>, in training and in use; some imported models were trained without.")
    ] = True
    part: Annotated[
        int,
        Setting(
            "Lines tokenised at a time. A corpus of more than 16 parts is trained on while it is read: its first 2 "
            "parts give held-out pairs and tokenizer.",
            ge=1,
        ),
    ] = 131072
    window: Annotated[int, Setting("Pairs shuffled together and sorted by length into batches.", ge=1)] = 262144
    workers: Annotated[
        int,
        Setting("Threads that prepare batches ahead, in unchanged order; 0: the training thread does.", ge=0, le=256),
    ] = 1


@dataclass
class Training:
    """How long, how fast and on what to train."""

    steps: Annotated[int, Setting("Optimizer steps.", ge=1)] = 20000
    minutes: Annotated[
        float, Setting("Stop after this time even if steps are left; the schedule follows it; 0: no limit.", ge=0)
    ] = 0.0
    batch_tokens: Annotated[
        int, Setting("A batch holds as many pairs as fit this many padded tokens on either side.", ge=1, le=1 << 24)
    ] = 4096
    batch_examples: Annotated[
        int, Setting("Examples per batch, for inputs not made of tokens; 0: batch_tokens decides.", ge=0, le=1 << 20)
    ] = 0
    accumulate: Annotated[
        int,
        Setting("Batches whose gradients make one step, of all processes together; at least one each.", ge=1, le=10**6),
    ] = 1
    shard: Annotated[
        bool, Setting("With several processes (torchrun): each keeps a share of weights, gradients and optimizer.")
    ] = False
    learning_rate: Annotated[
        float, Setting("Peak learning rate; 0: automatic, 0.001, or 0.0001 for fine-tuning.", ge=0, le=10)
    ] = 0.0
    schedule: Annotated[
        part_settings.Spec,
        Setting(
            "Learning rate schedule: its kind, or a table.", family="training/schedule", keys=part_settings.Schedule
        ),
    ] = "inverse_square_root"
    warmup: Annotated[
        int,
        Setting(
            "Steps over which the learning rate rises to its peak; -1: automatic, a tenth of the steps, at most 1,000, "
            "or 100 for fine-tuning.",
            ge=-1,
        ),
    ] = -1
    beta1: Annotated[float, Setting("Adam's decay of the mean of gradients.", ge=0, lt=1)] = 0.9
    beta2: Annotated[float, Setting("Adam's decay of the mean of squared gradients.", ge=0, lt=1)] = 0.98
    epsilon: Annotated[float, Setting("Added to Adam's denominator.", ge=0, le=1)] = 1e-9
    weight_decay: Annotated[float, Setting("Decoupled weight decay (AdamW).", ge=0, le=100)] = 0.0
    clip: Annotated[float, Setting("Gradient norm above which gradients are scaled down; 0: off.", ge=0)] = 1.0
    label_smoothing: Annotated[
        float, Setting("Share of the target probability spread over all labels or tokens.", ge=0, lt=1)
    ] = 0.1
    precision: Annotated[
        str,
        Setting("Arithmetic; auto: bfloat16 where the GPU has it.", choices=("auto", "float32", "bfloat16")),
    ] = "auto"
    compile: Annotated[
        str,
        Setting("Compile layers; auto: on a CUDA GPU from 2,000 steps on.", choices=("auto", "always", "never")),
    ] = "auto"
    ema: Annotated[
        float,
        Setting("Decay of a moving average of the weights, for validation and final model; 0: off.", ge=0, lt=1),
    ] = 0.0
    average: Annotated[
        int, Setting("Checkpoints averaged into the final model: the best and those before it; 1: off.", ge=1, le=1000)
    ] = 5
    validate_every: Annotated[int, Setting("Steps between validations; 0: only at the end.", ge=0)] = 1000
    save_every: Annotated[int, Setting("Steps between checkpoints; 0: only at the end.", ge=0)] = 1000
    log_every: Annotated[int, Setting("Steps between lines of the log; 0: never.", ge=0)] = 50
    keep: Annotated[int, Setting("Checkpoints kept, besides the best.", ge=1)] = 5
    metric: Annotated[
        str, Setting("Score that the best checkpoint is chosen by; empty: the first one validation gives.")
    ] = ""
    patience: Annotated[int, Setting("Stop after this many validations without improvement; 0: never.", ge=0)] = 0
    bad_steps: Annotated[
        int, Setting("Steps with a non-finite loss are skipped; this many in a row stop the run.", ge=1)
    ] = 10
    device: Annotated[str, Setting("auto, cpu, cuda, cuda:1 or mps.")] = "auto"
    samples: Annotated[int, Setting("Outputs shown at each validation.", ge=0, le=1000)] = 3
    start_from: Annotated[
        str,
        Setting(
            "Model or run to fine-tune: its weights and tokenizer are taken over; from a model for another task only "
            "stem and encoder."
        ),
    ] = ""


@dataclass
class Decoding:
    """Defaults of decoding with the trained model."""

    beam: Annotated[int, Setting("Hypotheses kept in beam search; 1: greedy.", ge=1, le=1000)] = 4
    length_penalty: Annotated[
        float,
        Setting(
            "Exponent of ((5 + length) / 6) that a log-probability is divided by; less makes outputs shorter.",
            ge=0,
            le=10,
        ),
    ] = 1.0
    coverage_penalty: Annotated[
        float,
        Setting("Of a translator: how much a source without enough attention costs (GNMT's beta).", ge=0, le=10),
    ] = 0.0
    beam_groups: Annotated[
        int,
        Setting("Of a translator: groups of beams that avoid each other's tokens; they divide beam.", ge=1, le=1000),
    ] = 1
    diversity_penalty: Annotated[
        float, Setting("What a token costs for each beam of an earlier group that chose it.", ge=0, le=100)
    ] = 0.5
    max_length: Annotated[int, Setting("Longest output in tokens.", ge=1, le=10_000)] = 256
    length_factor: Annotated[
        float, Setting("An output has at most length_factor * source tokens + length_extra tokens.", ge=0, le=1000)
    ] = 2.0
    length_extra: Annotated[int, Setting("See length_factor.", ge=0, le=10_000)] = 20
    batch_tokens: Annotated[int, Setting("Tokens that are decoded together.", ge=1, le=1 << 18)] = 4096
    chat: Annotated[
        str,
        Setting(
            "How a conversation is written for a language model; empty: it was not trained on any.",
            choices=("", "chatml", "llama-3", "zephyr", "llama-2"),
        ),
    ] = ""
    system: Annotated[str, Setting("What a model is told before a conversation that does not say it.")] = ""
    suppress: Annotated[
        list[str], Setting("Tokens that a transcript never has, as the tokenizer spells them: Whisper's '♪'.")
    ] = field(default_factory=list)
    suppress_first: Annotated[list[str], Setting("Tokens that no transcript begins with, likewise.")] = field(
        default_factory=list
    )
    ends: Annotated[list[str], Setting("Tokens that end a text as END does: some language models have several.")] = (
        field(default_factory=list)
    )


@dataclass
class Languages:
    """The languages of a translator with more than one direction, and how the model is told which are meant.

    One with a single direction has `source_language` and `target_language` instead.
    """

    source: Annotated[list[str], Setting("Codes of the languages that it translates from.")] = field(
        default_factory=list
    )
    target: Annotated[list[str], Setting("Codes of the languages that it translates to.")] = field(default_factory=list)
    source_tag: Annotated[
        str,
        Setting(
            "Where a source has the tag of its own language: nowhere, before its text or after it.",
            choices=("none", "before", "after"),
        ),
    ] = "none"
    target_tag: Annotated[
        str,
        Setting(
            "Where the tag of the target language stands: nowhere, before the source, or as the output's first token.",
            choices=("none", "source", "output"),
        ),
    ] = "none"
    source_token: Annotated[
        str, Setting("A token before every source, whatever its language, as the tokenizer spells it: BART's '<s>'.")
    ] = ""
    output_token: Annotated[str, Setting("A token that every output begins with, likewise.")] = ""
    tags: Annotated[
        dict[str, Any], Setting("The tag of each language, as the tokenizer spells it: de = '>>deu<<'.")
    ] = field(default_factory=dict)
    prefixes: Annotated[
        dict[str, Any],
        Setting("Text put before the source, for each direction: en-de = 'translate English to German: '."),
    ] = field(default_factory=dict)


@dataclass
class Recipe:
    task: Annotated[str, Setting("What the model is for.", family="task")] = "translate"
    name: Annotated[str, Setting("Name of the run: runs/NAME.")] = ""
    seed: Annotated[int, Setting("Seed of everything random.", ge=0)] = 1
    source_language: Annotated[str, Setting("Code of the language translated from, such as fr.")] = ""
    target_language: Annotated[str, Setting("Code of the language translated to, such as en.")] = ""
    languages: Annotated[Languages, Setting("The languages of a translator with several directions.")] = field(
        default_factory=Languages
    )
    data: Annotated[Data, Setting("Where the data are.")] = field(default_factory=Data)
    tokenizer: Annotated[dict[str, Any], Setting("Tokenizer: its kind and its keys.", keys=part_settings.Tokenizer)] = (
        field(default_factory=lambda: {"kind": "subword"})
    )
    input: Annotated[dict[str, Any], Setting("How an input that is not text is read.", keys=part_settings.Input)] = (
        field(default_factory=dict)
    )
    model: Annotated[dict[str, Any], Setting("The model and its parts.", keys=part_settings.Model)] = field(
        default_factory=dict
    )
    training: Annotated[Training, Setting("How to train.")] = field(default_factory=Training)
    decoding: Annotated[Decoding, Setting("How the trained model is used.")] = field(default_factory=Decoding)
    tiny: Annotated[
        dict[str, Any],
        Setting(
            "Changes for a run of seconds on synthetic data: any keys of the other sections, and `beats`, scores that "
            "the run must beat to show that it learnt something."
        ),
    ] = field(default_factory=dict)
