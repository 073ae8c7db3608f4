"""Made text of many languages, and sentencepiece models trained on it, for the tests of imported tokenizers."""

from __future__ import annotations

import io
import json
import random

import sentencepiece
import tokenizers

from regard.data.tokenizer._base import Tokenizer
from regard.data.tokenizer.hugging_face import HuggingFace
from regard.data.tokenizer.sentencepiece import SentencePiece

WORDS = {
    "de": [
        "der",
        "die",
        "das",
        "Haus",
        "Häuser",
        "und",
        "läuft",
        "schön",
        "über",
        "Straße",
        "Übung",
        "gegen",
        "alte",
        "Mädchen",
        "1984",
        "Größe",
    ],
    "fr": [
        "le",
        "la",
        "maison",
        "été",
        "où",
        "garçon",
        "français",
        "déjà",
        "l'eau",
        "cœur",
        "naïve",
        "vieux",
        "3,5",
        "Noël",
    ],
    "ar": ["السلام", "عليكم", "في", "البيت", "كتاب", "جديد", "مدرسة", "كبيرة", "الشمس", "والقمر", "١٢٣"],
    "fa": ["می\u200cخواهم", "کتاب", "خانه", "بزرگ", "آب", "و", "هوا", "دوست", "من", "پنجره"],
    "he": ["שלום", "בית", "גדול", "ספר", "חדש", "ילדים", "אוהבים", "את", "הים"],
    "zh": ["我们去学校", "今天天气很好", "他喜欢看书", "北京", "东京大学"],
    "ja": ["私は学生です", "東京に行きます", "ありがとう", "カタカナ"],
    "hi": ["नमस्ते", "दुनिया", "किताब", "अच्छा", "है", "घर", "पानी"],
    "vi": ["tôi", "yêu", "tiếng", "Việt", "đường", "phố", "người"],
}
TRICKY = [
    "Hello  world",
    "  leading and trailing  ",
    "tab\there\nand a line",
    "MIXED case Word wOrD",
    "cafe\u0301 e\u0323\u0301 n\u0303",
    "emoji 😀👩\u200d💻🇩🇪 end",
    "unknown \u16a0\u16b1\u16b2 ⴰⴱ x",
    "ﬁne ① ㍿ ｆｕｌｌ ½",
    "zero\u200bwidth soft\u00adhyphen no\u00a0break",
    "السلام عليكم יאללה mixed left",
    "我们去学校，今天天气很好。",
    "(quotes) «fr» “en” ‘x’ ...",
    "a▁b",
    "",
    " ",
    "über-Straße 1984! 3,5 %",
    "ßßß ÄÖÜ ẞ",
    "می‌خواهم",
]


def lines(count: int = 300, seed: int = 1) -> list[str]:
    random_words = random.Random(seed)
    return [
        " ".join(random_words.choices(words, k=random_words.randint(3, 9))) + random_words.choice([".", "!", "?", ""])
        for words in random_words.choices(list(WORDS.values()), k=count)
    ]


def model(
    kind: str = "unigram", size: int = 300, seed: int = 1, text: list[str] | None = None, **options: object
) -> bytes:
    """A sentencepiece model with the settings most models have: NFKC, spaces collapsed, a space in front."""
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text or lines(seed=seed)),
        model_writer=out,
        **{
            "model_type": kind,
            "vocab_size": size,
            "hard_vocab_limit": False,
            "character_coverage": 0.99,
            "minloglevel": 2,
            "num_threads": 1,
            **options,
        },
    )
    return out.getvalue()


def pieces_of(model: bytes) -> list[str]:
    """The pieces of a sentencepiece model, without <unk>, <s> and </s>."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    pieces = (processor.id_to_piece(i) for i in range(len(processor)))
    return [piece for piece in pieces if piece not in ("<unk>", "<s>", "</s>", "<pad>")]


def tokenizer(kind: str, text: list[str]) -> Tokenizer:
    """A tokenizer of an imported kind that gives `text` back."""
    if kind == "sentencepiece":
        spm = model(size=500, text=text, character_coverage=1.0)
        return SentencePiece(spm, pieces_of(spm))
    file = tokenizer_json(text)
    return HuggingFace(file, range(2, tokenizers.Tokenizer.from_str(file.decode()).get_vocab_size()), [0, 1, 0, 0])


def tokenizer_json(text: list[str], size: int = 400) -> bytes:
    """A `tokenizer.json` with the parts of T5's; </s> is 0 and <unk> is 1."""
    made = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>", fuse_unk=True))
    split = tokenizers.pre_tokenizers
    made.pre_tokenizer = split.Sequence([split.WhitespaceSplit(), split.Metaspace()])
    made.decoder = tokenizers.decoders.Metaspace()
    made.train_from_iterator(
        text, tokenizers.trainers.BpeTrainer(vocab_size=size, special_tokens=["</s>", "<unk>"], show_progress=False)
    )
    return json.dumps(json.loads(made.to_str())).encode()
