"""The keys of a recipe's free tables: the model and its parts, tokenizer, input, data.format, training.schedule.

The signature of a part's constructor says which keys it takes and their defaults. Type, range and description of each
key are declared here, by name. Parts of other packages may take more keys, which are checked against their default.
"""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

from regard.registry import MOST as MOST
from regard.setting import Setting

PRESETS: dict[str, dict[str, Any]] = {
    "base": {"layers": 6, "width": 512, "feed_forward": 2048, "heads": 8, "dropout": 0.1},
    "small": {"layers": 3, "width": 256, "feed_forward": 1024, "heads": 4},
    "tiny": {"layers": 4, "width": 128, "feed_forward": 256, "heads": 4, "dropout": 0.3},
}
"""The values of `model.preset`, `small` by default; keys that are set override it."""

Spec = str | dict[str, Any]
"""A part: its kind, or a table with its kind and keys."""


class Attention(TypedDict, total=False):
    kind: Annotated[str, Setting("Kind of attention.", family="layers/attention")]
    size: Annotated[int, Setting("Width of the additive score's hidden layer; 0: the decoder's.", ge=0, le=MOST)]
    scaled: Annotated[bool, Setting("Divide dot products by the square root of the width.")]
    score: Annotated[str, Setting("Score function.", choices=("dot", "general", "concat"))]
    window: Annotated[int, Setting("Source positions on either side that local attention sees.", ge=1, le=MOST)]
    alignment: Annotated[str, Setting("How local attention finds its centre.", choices=("predictive", "monotonic"))]
    heads: Annotated[int, Setting("Attention heads; they must divide the width.", ge=1, le=MOST)]
    dropout: Annotated[float, Setting("Dropout of attention weights.", ge=0, lt=1)]
    head_width: Annotated[int, Setting("Width of an attention head; 0: width / heads.", ge=0, le=2**16)]
    bias: Annotated[bool, Setting("Biases of the projections.")]
    kv_heads: Annotated[int, Setting("Heads of keys and values, which groups of heads share; 0: heads.", ge=0, le=MOST)]


class Position(TypedDict, total=False):
    kind: Annotated[str, Setting("Kind of position embedding.", family="layers/position")]
    length: Annotated[int, Setting("Positions that a learned embedding has.", ge=1, le=MOST)]
    most: Annotated[int, Setting("Largest random shift of positions in training.", ge=1, le=MOST)]
    offset: Annotated[int, Setting("Number of the first position.", ge=0, le=MOST)]
    inclusive: Annotated[bool, Setting("The slowest sinusoid has the rate 1/10000 itself, as in M2M-100.")]


class RelativePosition(TypedDict, total=False):
    kind: Annotated[str, Setting("Kind of relative position.", family="layers/relative_position")]
    buckets: Annotated[int, Setting("Buckets of distances, each with a number per head.", ge=2, le=MOST)]
    distance: Annotated[int, Setting("All distances from here on share the last bucket.", ge=2, le=MOST)]
    base: Annotated[float, Setting("Columns of a head rotate at rates from 1 down to about 1 / base.", gt=1, le=1e12)]
    factor: Annotated[float, Setting("How many times slower rotations are, for longer texts.", ge=1, le=1e6)]
    original: Annotated[int, Setting("Positions before `factor`; 0: all rotations are slowed.", ge=0, le=2**24)]
    low: Annotated[float, Setting("Turns within `original` up to which rotations are slowed fully.", gt=0, le=1e6)]
    high: Annotated[float, Setting("Turns within `original` from which rotations are not slowed.", gt=0, le=1e6)]


class Schedule(TypedDict, total=False):
    kind: Annotated[str, Setting("Kind of learning rate schedule.", family="training/schedule")]
    floor: Annotated[float, Setting("Learning rate at the last step, as a share of the peak.", ge=0, le=1)]


Width = Annotated[int, Setting("Width of the vectors.", ge=1, le=MOST)]
Layers = Annotated[int, Setting("Number of layers.", ge=1, le=1000)]
Heads = Annotated[int, Setting("Attention heads; they must divide the width.", ge=1, le=MOST)]
FeedForward = Annotated[int, Setting("Width of the hidden layer of feed-forward blocks.", ge=1, le=MOST)]
Dropout = Annotated[float, Setting("Share of activations set to zero in training.", ge=0, lt=1)]
Norm = Annotated[str, Setting("Layer norm before or after each sublayer.", choices=("pre", "post"))]
NormKind = Annotated[
    str,
    Setting("Layer norm, or rms: divided by the root mean square, without mean and bias.", choices=("layer", "rms")),
]
NormEpsilon = Annotated[float, Setting("What norms add to the variance.", gt=0, lt=1)]
Activation = Annotated[
    str,
    Setting("Activation of feed-forward blocks.", choices=("relu", "gelu", "gelu_tanh", "elu", "silu", "tanh")),
]
Gated = Annotated[bool, Setting("Gated feed-forward: one more projection, multiplied with the activation.")]
Bias = Annotated[bool, Setting("Biases of the linear layers in attention and feed-forward.")]
HeadWidth = Annotated[int, Setting("Width of an attention head; 0: width / heads.", ge=0, le=2**16)]
PositionSpec = Annotated[
    Spec, Setting("Position embedding: its kind, or a table.", family="layers/position", keys=Position)
]
RelativePositionSpec = Annotated[
    Spec,
    Setting(
        "How distances count in the scores of self-attention: its kind, or a table.",
        family="layers/relative_position",
        keys=RelativePosition,
    ),
]
EmbeddingNorm = Annotated[bool, Setting("Layer norm after the embedding.")]
Cell = Annotated[str, Setting("Recurrent cell.", family="layers/cell")]
LayerNorm = Annotated[bool, Setting("Layer norm inside recurrent cells.")]
Halting = Annotated[bool, Setting("Adaptive computation time: each position decides how many layers it gets.")]
PonderCost = Annotated[float, Setting("Weight of the number of layers used in the loss.", ge=0, lt=1e6)]
Epsilon = Annotated[float, Setting("Halting probability that may be left over when a position stops.", ge=0, lt=1)]
Vectors = Annotated[str, Setting("File of word vectors that the embedding starts from.")]
Direction = Annotated[str, Setting("Direction a recurrent encoder reads in.", choices=("forward", "backward", "both"))]
AttentionSpec = Annotated[Spec, Setting("Attention: its kind, or a table.", family="layers/attention", keys=Attention)]
Order = Annotated[str, Setting("Attend before or after each recurrent step.", choices=("before", "after"))]
Feed = Annotated[bool, Setting("Feed what attention returned into the next step.")]
BridgeKind = Annotated[
    str, Setting("How the decoder's first state is made of the encoder's last.", choices=("dense", "copy"))
]
Embedding = Annotated[int, Setting("Width of the decoder's token embedding; 0: the decoder's width.", ge=0, le=MOST)]
Tie = Annotated[bool, Setting("Use the token embedding as output layer too.")]
Scale = Annotated[bool, Setting("Multiply embeddings by the square root of the width.")]
WordDropout = Annotated[float, Setting("Share of tokens replaced by the unknown token in training.", ge=0, lt=1)]
Augment = Annotated[str, Setting("Random changes in training, such as 'flip shift'; empty: none.")]
Patch = Annotated[int, Setting("Side of an image patch in pixels, or time steps per vector.", ge=1, le=MOST)]


class Stem(TypedDict, total=False):
    kind: Annotated[str, Setting("What turns raw input into vectors.", family="stem")]
    width: Width
    position: PositionSpec
    dropout: Dropout
    word_dropout: WordDropout
    scale: Scale
    embedding_norm: EmbeddingNorm
    norm_epsilon: NormEpsilon
    vectors: Vectors
    patch: Patch
    class_token: Annotated[bool, Setting("Prepend a learned token for classification.")]
    distillation_token: Annotated[bool, Setting("Prepend a second learned token, as DeiT does.")]
    augment: Augment
    filters: Annotated[
        int, Setting("Filters of the first convolution over each frame, or over a word's characters.", ge=1, le=MOST)
    ]
    stages: Annotated[
        int, Setting("Stages of the convolutional network; each but the first halves the image.", ge=1, le=16)
    ]
    blocks: Annotated[int, Setting("Residual blocks per stage.", ge=1, le=1000)]
    character_width: Annotated[int, Setting("Width of the vectors of a word's characters.", ge=1, le=MOST)]
    mels: Annotated[int, Setting("Mel bands of the spectrogram.", ge=1, le=1000)]
    window: Annotated[float, Setting("Seconds of sound per spectrogram frame.", gt=0, le=1)]
    hop: Annotated[float, Setting("Seconds between spectrogram frames.", gt=0, le=1)]
    seconds: Annotated[float, Setting("Seconds of the window of sound that the stem reads.", gt=0, le=120)]
    subsample: Annotated[int, Setting("Frames joined into one vector: 1, 2, 4, 8 or 16.", ge=1, le=16)]


class Encoder(TypedDict, total=False):
    kind: Annotated[str, Setting("Kind of encoder.", family="encoder")]
    width: Width
    layers: Layers
    heads: Heads
    attention: AttentionSpec
    feed_forward: FeedForward
    dropout: Dropout
    norm: Norm
    norm_kind: NormKind
    norm_epsilon: NormEpsilon
    activation: Activation
    gated: Gated
    bias: Bias
    head_width: HeadWidth
    position: PositionSpec
    relative_position: RelativePositionSpec
    cell: Cell
    direction: Direction
    layer_norm: LayerNorm
    halting: Halting
    ponder_cost: PonderCost
    epsilon: Epsilon


class Decoder(TypedDict, total=False):
    kind: Annotated[str, Setting("Kind of decoder.", family="decoder")]
    width: Width
    embedding: Embedding
    layers: Layers
    heads: Heads
    feed_forward: FeedForward
    dropout: Dropout
    norm: Norm
    norm_kind: NormKind
    norm_epsilon: NormEpsilon
    activation: Activation
    gated: Gated
    bias: Bias
    head_width: HeadWidth
    position: PositionSpec
    relative_position: RelativePositionSpec
    embedding_norm: EmbeddingNorm
    output_bias: Annotated[bool, Setting("A learned bias for each token of the output.")]
    cell: Cell
    attention: AttentionSpec
    order: Order
    feed: Feed
    layer_norm: LayerNorm
    bridge: BridgeKind
    halting: Halting
    ponder_cost: PonderCost
    epsilon: Epsilon
    tie: Tie
    scale: Scale
    vectors: Vectors


class Model(Stem, Encoder, Decoder, total=False):  # type: ignore[misc]  # a part's key stated here is for all parts
    kind: Annotated[str, Setting("Kind of model; by default the task's.", family="model")]
    preset: Annotated[str, Setting("Sizes of a Transformer by one name.", choices=tuple(PRESETS))]
    stem: Annotated[Spec, Setting("What turns raw input into vectors: its kind, or a table.", family="stem", keys=Stem)]
    encoder: Annotated[Spec, Setting("Encoder: its kind, or a table.", family="encoder", keys=Encoder)]
    decoder: Annotated[Spec, Setting("Decoder: its kind, or a table.", family="decoder", keys=Decoder)]
    share: Annotated[bool, Setting("Encoder and decoder share one token embedding.")]
    pooling: Annotated[
        str, Setting("How a classifier sums up the positions.", choices=("mean", "max", "last", "first", "first_two"))
    ]
    head_activation: Annotated[
        str,
        Setting(
            "A layer with this activation before a classifier's output layer; none: no such layer.",
            choices=("none", "tanh", "relu", "gelu"),
        ),
    ]
    mixup: Annotated[
        float, Setting("Mix pictures of a batch in training, in shares from Beta(mixup, mixup); 0: off.", ge=0, le=100)
    ]
    cutmix: Annotated[
        float, Setting("Cut rectangles of other pictures into those of a batch, likewise; 0: off.", ge=0, le=100)
    ]
    head_dropout: Annotated[float, Setting("Dropout before the output layer.", ge=0, lt=1)]
    window: Annotated[int, Setting("Time steps that a forecast is made from.", ge=1, le=MOST)]  # type: ignore[misc]
    horizon: Annotated[int, Setting("Time steps that are forecast.", ge=1, le=MOST)]
    head: Annotated[str, Setting("What a forecast is computed from.", choices=("last", "mean", "flat"))]
    centre: Annotated[str, Setting("What is subtracted from each window.", choices=("last", "mean", "none"))]
    apart: Annotated[bool, Setting("Forecast each column by itself, with the same weights.")]


class Tokenizer(TypedDict, total=False):
    kind: Annotated[str, Setting("Kind of tokenizer.", family="data/tokenizer")]
    path: Annotated[str, Setting("Folder of a model whose tokenizer is taken as it is.")]
    size: Annotated[int, Setting("Most entries of the vocabulary.", ge=8, le=MOST)]
    min_count: Annotated[int, Setting("How often an entry must occur in the training text.", ge=1, le=MOST)]
    sampling: Annotated[float, Setting("Subword sampling in training: the exponent alpha; 0: off.", ge=0, le=100)]
    coverage: Annotated[float, Setting("Share of characters that get a piece of their own.", gt=0, le=1)]
    sample_lines: Annotated[int, Setting("Lines that subwords are learnt from.", ge=1, le=10**9)]
    tags: Annotated[
        list[str],
        Setting("Tokens that are no text, such as >>de<< for the language to translate to; data.pairs adds its own."),
    ]
    lowercase: Annotated[bool, Setting("Lowercase words.")]
    words_of: Annotated[
        str,
        Setting("File of word vectors whose words join the vocabulary, after those of the text and in their order."),
    ]
    exact: Annotated[bool, Setting("Keep the text as it is, without Unicode normalisation.")]
    alphabet: Annotated[str, Setting("The letters; empty: those of the training text.")]


class Input(TypedDict, total=False):
    size: Annotated[int, Setting("Side of pictures in pixels; 0: that of the training pictures.", ge=0, le=1024)]
    channels: Annotated[int, Setting("1: grey, 3: colour, 0: as in the training pictures.", choices=(0, 1, 3))]
    resize: Annotated[
        str,
        Setting(
            "How a picture is resized: its central square, both sides without regard to proportions (stretch), in its "
            "proportions by its short side, or not at all. Then the middle is cut out.",
            choices=("square", "stretch", "short_side", "none"),
        ),
    ]
    resize_to: Annotated[int, Setting("Side in pixels after resizing; 0: `size`.", ge=0, le=1024)]
    filter: Annotated[
        str,
        Setting(
            "Filter that pictures are resized with.",
            choices=("nearest", "box", "bilinear", "hamming", "bicubic", "lanczos"),
        ),
    ]
    mean: Annotated[
        list[float],
        Setting("Subtracted from each channel of pixels between 0 and 1; empty: the mean of the training pictures."),
    ]
    spread: Annotated[
        list[float],
        Setting("What each channel is then divided by; empty: the standard deviation of the training pictures.", ge=0),
    ]
    rate: Annotated[int, Setting("Samples of sound per second; 0: that of the training recordings.", ge=0, le=192_000)]
    columns: Annotated[list[str], Setting("Columns of a series that are read; empty: all.")]


class Format(TypedDict, total=False):
    kind: Annotated[str, Setting("What reads the files, or makes examples itself (made_...).", family="data/format")]
    count: Annotated[int, Setting("Examples that are made.", ge=1, le=10**9)]
    seed: Annotated[int, Setting("Seed of the examples that are made.", ge=0)]
    shortest: Annotated[int, Setting("Length of the shortest example made.", ge=1, le=MOST)]
    longest: Annotated[int, Setting("Length of the longest example made.", ge=1, le=MOST)]
    size: Annotated[int, Setting("Side of the pictures made, in pixels.", ge=12, le=512)]
    noise: Annotated[float, Setting("Noise added to the examples made.", ge=0, le=100)]
    task: Annotated[
        str,
        Setting("Algorithm to learn.", choices=("copy", "reverse", "addition")),
    ]
    target: Annotated[str, Setting("What is asked of a clip.", choices=("activity", "track"))]
    colour: Annotated[bool, Setting("Draw in colour.")]
    captions: Annotated[bool, Setting("Describe the shapes in words.")]
    shapes: Annotated[int, Setting("Shapes per picture.", ge=1, le=2)]
    length: Annotated[int, Setting("Bases per sequence.", ge=1, le=10_000)]
    motif: Annotated[str, Setting("Motif to recognise.")]
    mark: Annotated[bool, Setting("Mark the position in the sequence instead of naming its class.")]
    sensors: Annotated[int, Setting("Sensors of a made recording.", ge=1, le=1000)]
    steps: Annotated[int, Setting("Time steps per series.", ge=1, le=1_000_000)]
    trend: Annotated[float, Setting("Slope of the series made.", ge=-1000, le=1000)]
    rate: Annotated[int, Setting("Samples of made sound per second.", ge=4_000, le=192_000)]
    columns: Annotated[
        int | list[str],
        Setting("How many columns are made (made_series), or the names of those read (table).", ge=1, le=1000),
    ]
    borders: Annotated[list[float], Setting("Sizes of train, valid and test, in rows or shares; empty: by file.", ge=0)]
    shrink: Annotated[int, Setting("Longest short side of a picture read, in pixels; 0: no limit.", ge=0, le=MOST)]
    transpose: Annotated[int, Setting("Semitones up and down that training pieces are transposed.", ge=0, le=12)]
    word: Annotated[int, Setting("Column of the word, counted from 1.", ge=1, le=1000)]
    tag: Annotated[int, Setting("Column of the tag, counted from 1.", ge=1, le=1000)]
    text: Annotated[int, Setting("Column of the text, counted from 1.", ge=1, le=1000)]
    label: Annotated[int, Setting("Column of the label, counted from 1.", ge=1, le=1000)]
    header: Annotated[bool, Setting("The first line of a table is a header.")]
    names: Annotated[
        list[str] | dict[str, Any], Setting("Names of the labels: a list (idx), or a table (labelled_table).")
    ]
    labels: Annotated[list[str], Setting("The label of each file, in their order.")]
    none: Annotated[str, Setting("Class of sequences in which nothing is marked.")]
    most: Annotated[int, Setting("Most lines read of a file.", ge=1)]
    share: Annotated[float, Setting("Share of the text that is trained on.", gt=0, le=1)]
    unseen: Annotated[str, Setting("Speaker kept for testing.")]
    join: Annotated[int, Setting("Most digits joined into one recording.", ge=1, le=20)]
    train: Annotated[list[int], Setting("Subjects to train on.", ge=1, le=1000)]
    valid: Annotated[list[int], Setting("Subjects to validate on.", ge=1, le=1000)]
    test: Annotated[list[int], Setting("Subjects to test on.", ge=1, le=1000)]
