"""Imported language models agree with transformers: tokens, logits, greedy texts, cached and whole, padded and alone."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

import regard
from regard.assemble import build_model, resolve_model
from regard.config import Data, Recipe
from regard.data.tokenizer.character import Character
from regard.data.tokenizer.subword import Subword
from regard.decoding.greedy import greedy
from regard.decoding.rules import Forbid
from regard.inspection.trace.base import Choice
from regard.interchange.imported import Imported
from regard.interchange.read import hugging_face
from regard.loading import model_files
from regard.states import empty_memory
from regard.storage import write_folder
from regard.task.generate import Generator
from regard.types import BEGIN, END, PAD, UNKNOWN
from tests.data import imported_text
from tests.interchange.made_language_models import LONGEST, VARIANTS

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

OWN: dict[str, dict[str, Any]] = {
    "gpt2": {"norm": "pre", "activation": "gelu_tanh", "position": {"kind": "learned", "length": 26}, "scale": False},
    "llama": {
        "norm": "pre",
        "norm_kind": "rms",
        "activation": "silu",
        "gated": True,
        "bias": False,
        "position": "none",
        "relative_position": {"kind": "rotary", "factor": 2.0, "original": 9},
        "attention": {"kind": "multi_head", "kv_heads": 1},
        "scale": False,
    },
}
"""Shapes that are trained here and that a family has."""
PROMPTS = ["das Haus", " läuft schön über die Straße", "我们去学校", "x"]


@dataclass
class Pair:
    name: str
    theirs: Any
    tokenizer: Any
    folder: Path
    imported: Imported
    ours: Generator

    @property
    def ids(self) -> dict[int, int]:
        """Our id of each of theirs."""
        saved = self.imported.tokenizer._saved  # type: ignore[attr-defined]
        ordinary = {theirs: ours for ours, theirs in enumerate(saved["order"], 4)}
        special = {saved["special"][ours]: ours for ours in (PAD, UNKNOWN, BEGIN, END)}
        return ordinary | special

    @property
    def begin(self) -> int:
        return int(self.imported.tokenizer._saved["special"][BEGIN])  # type: ignore[attr-defined]

    def theirs_of(self, ours: list[int]) -> list[int]:
        back = {mine: theirs for theirs, mine in self.ids.items()} | {BEGIN: self.begin}
        return [back[id] for id in ours]


@pytest.fixture(scope="module", params=VARIANTS)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    maker, changes = VARIANTS[request.param]
    folder = tmp_path_factory.mktemp("folder")
    theirs, tokenizer = maker(folder, **changes)
    place = tmp_path_factory.mktemp("ours") / "model"
    regard.import_model(folder, place)
    return Pair(request.param, theirs, tokenizer, place, hugging_face.read(folder), regard.load(place, device="cpu"))


def test_tokens_agree(pair: Pair) -> None:
    for text in [*imported_text.lines(60, seed=9), *imported_text.TRICKY]:
        theirs = pair.tokenizer(text, add_special_tokens=False).input_ids
        assert pair.ours.encode(text) == [pair.ids[id] for id in theirs], text
        decoded = pair.tokenizer.decode(theirs, clean_up_tokenization_spaces=False)
        assert pair.ours.shown(text) == decoded, text


@pytest.mark.slow
def test_tokens_of_ten_thousand_lines_agree(pair: Pair) -> None:
    lines = imported_text.lines(10_000, seed=11)
    theirs = pair.tokenizer(lines, add_special_tokens=False).input_ids
    assert pair.ours.tokenizer.encode_many(lines) == [[pair.ids[id] for id in ids] for ids in theirs]


def test_logits_agree(pair: Pair) -> None:
    """Also to the last position that the model has."""
    torch.manual_seed(1)
    theirs = torch.randint(5, len(pair.tokenizer) - 5, (3, LONGEST))
    theirs[:, 0] = pair.begin
    mine = torch.tensor([[BEGIN, *(pair.ids[id] for id in row[1:])] for row in theirs.tolist()])
    with torch.no_grad():
        found, wanted = pair.ours.model(mine), pair.theirs(theirs).logits
    rows = [id for id in range(len(pair.tokenizer)) if pair.ids[id] > BEGIN]
    columns = [pair.ids[id] for id in rows]
    torch.testing.assert_close(found[..., columns], wanted[..., rows], atol=1e-4, rtol=1e-4)
    # Copies of a token take no part: the probabilities of all others are theirs, too.
    if pair.ids[pair.begin] != BEGIN:
        ours, others = found.softmax(-1)[..., columns], wanted.softmax(-1)[..., rows]
        torch.testing.assert_close(ours, others, atol=1e-5, rtol=1e-4)


def greedy_of(pair: Pair, prompt: list[int], length: int) -> list[int]:
    """What transformers writes: our rules forbid the special tokens and an empty text there, too."""
    never = [pair.begin] if pair.ids[pair.begin] == BEGIN else []
    never += [id for id, ours in pair.ids.items() if ours == UNKNOWN]
    ids = torch.tensor([pair.theirs_of([BEGIN, *prompt])])
    end = pair.theirs_of([END])[0]
    written = pair.theirs.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=length,
        min_new_tokens=1,
        do_sample=False,
        eos_token_id=end,
        pad_token_id=end,
        bad_words_ids=[[id] for id in never if id != end] or None,
    )[0, ids.shape[1] :].tolist()
    return [pair.ids[id] if id != end else END for id in written]


@pytest.mark.parametrize("prompt", PROMPTS)
def test_greedy_texts_agree_token_by_token(pair: Pair, prompt: str) -> None:
    ids = pair.ours.encode(prompt)
    pair.ours.rules = [rule for rule in pair.ours.rules if not isinstance(rule, Forbid)] + [Forbid()]
    length = LONGEST - len(ids) - 2
    drawn = [piece.id for piece in pair.ours.stream(prompt, length=length, top_k=1)]
    assert drawn == greedy_of(pair, ids, length)


def test_step_by_step_equals_all_at_once(pair: Pair) -> None:
    decoder = pair.ours.model.decoder
    ids = torch.tensor([[BEGIN, *range(10, 30)]])
    with torch.inference_mode():
        whole = pair.ours.model(ids)
        state, rows = decoder.start(empty_memory(1), 1, 32), []
        for part in ids.split([5, 1, 1, 7, 1, 6], dim=1):
            logits, state = decoder.step(part, state)
            rows.append(logits)
    torch.testing.assert_close(torch.cat(rows, 1), whole, atol=1e-4, rtol=1e-4)


def test_a_batch_equals_each_alone_and_what_transformers_writes_for_it_padded_on_the_left(pair: Pair) -> None:
    prompts = [pair.ours.encode(text)[:4] for text in PROMPTS[:3]]
    rows = [[BEGIN, *prompt] for prompt in prompts]
    width = max(map(len, rows))
    end = pair.theirs_of([END])[0]
    padded = torch.tensor([[end] * (width - len(row)) + pair.theirs_of(row) for row in rows])
    mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows])
    places = (mask.cumsum(1) - 1).clamp(min=0)
    with torch.no_grad():
        wanted = pair.theirs(padded, attention_mask=mask, position_ids=places).logits[:, -1]
        alone = torch.cat([pair.ours.model(torch.tensor([row]))[:, -1] for row in rows])
        together = pair.ours.model(torch.tensor([row + [PAD] * (width - len(row)) for row in rows]))
    ends = together[range(len(rows)), [len(row) - 1 for row in rows]]
    torch.testing.assert_close(ends, alone, atol=1e-4, rtol=1e-4)
    kept = [id for id in range(len(pair.tokenizer)) if pair.ids[id] > BEGIN]
    torch.testing.assert_close(alone[:, [pair.ids[id] for id in kept]], wanted[:, kept], atol=1e-4, rtol=1e-4)


def test_beams_of_one_sentence_have_their_own_past(pair: Pair) -> None:
    """Greedy search for several sentences, and the same one by one."""
    limits = torch.tensor([12, 12])
    prefix = torch.tensor([[20, 21, 22], [40, 41, 42]])
    both = greedy(pair.ours.model.decoder, empty_memory(2), max_lengths=limits, prefix=prefix)
    for row in range(2):
        (alone,) = greedy(
            pair.ours.model.decoder, empty_memory(1), max_lengths=limits[:1], prefix=prefix[row : row + 1]
        )
        assert both[row].ids == alone.ids


def test_a_text_outgrows_the_context_and_the_inspector_refuses_it(pair: Pair) -> None:
    """Past the window the last half of it is read again (decoding/stream.py)."""
    pair.ours.rules = [Forbid((PAD, UNKNOWN, BEGIN, END))]
    assert len(list(pair.ours.stream("das Haus", length=LONGEST + 9, seed=3))) == LONGEST + 9
    with pytest.raises(regard.UserError, match="reads at most"):
        pair.ours.inspect("das Haus " * LONGEST)


def test_what_is_inspected_is_what_transformers_computes(pair: Pair) -> None:
    trace = pair.ours.inspect("das Haus und")
    ids = pair.theirs_of([BEGIN, *pair.ours.encode("das Haus und")])
    pair.theirs.set_attn_implementation("eager")
    with torch.no_grad():
        wanted = pair.theirs(torch.tensor([ids]), output_attentions=True)
    pair.theirs.set_attn_implementation("sdpa")
    found = [layer.weights for layer in trace.attention]
    assert len(found) == len(wanted.attentions)
    for ours, theirs in zip(found, wanted.attentions):
        torch.testing.assert_close(torch.as_tensor(ours), theirs[0], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("head", [0, 3])
def test_the_numbers_of_a_head_are_recomputed(pair: Pair, head: int) -> None:
    """What the numbers view spells out ends at what the fused layer computed."""
    trace = pair.ours.inspect("das Haus und")
    found = trace.calculation_of(Choice(layer=len(trace.attention) - 1, head=head, position=2))
    assert found.difference < 1e-5
    torch.testing.assert_close(
        torch.as_tensor(found.weights), torch.as_tensor(trace.attention[-1].weights[head][2]), atol=1e-5, rtol=1e-4
    )


def test_it_goes_back_to_transformers_as_it_came(pair: Pair, tmp_path: Path) -> None:
    regard.export(pair.folder, tmp_path / "back", format="huggingface")
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "back")
    if pair.name == "qwen2":  # as a Llama whose attention has biases, one of them 0
        ids = torch.arange(30)[None]
        with torch.no_grad():
            torch.testing.assert_close(again(ids).logits, pair.theirs(ids).logits, atol=1e-5, rtol=1e-5)
        return
    wanted = pair.theirs.state_dict()
    assert again.state_dict().keys() == wanted.keys()
    for name, tensor in again.state_dict().items():
        assert torch.equal(tensor, wanted[name]), name
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "back")
    for text in PROMPTS:
        assert tokenizer(text).input_ids == pair.tokenizer(text).input_ids
    assert (tokenizer.eos_token, again.config.eos_token_id) == (pair.tokenizer.eos_token, pair.theirs_of([END])[0])


def trained_here(folder: Path, tokenizer: Any, decoder: dict[str, Any]) -> Path:
    """A model folder of ours with random weights."""
    torch.manual_seed(5)
    shape = resolve_model(
        {"kind": "language_model", "width": 16, "layers": 2, "heads": 2, "feed_forward": 24} | decoder
    )
    model = build_model(shape, len(tokenizer))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    recipe = Recipe(task="generate", model=shape, data=Data(max_length=24), tokenizer={"kind": tokenizer.kind})
    write_folder(folder, model_files(recipe, tokenizer, dict(model.named_parameters()), "float32"))
    return folder


@pytest.mark.parametrize("shape", OWN)
@pytest.mark.parametrize("kind", ["exact character", "character", "subword"])
def test_a_model_trained_here_computes_the_same_in_transformers(tmp_path: Path, shape: str, kind: str) -> None:
    lines = imported_text.lines(100)
    tokenizer: Any = Subword.train(lines, seed=1, size=800)
    if "character" in kind:
        tokenizer = Character.train(lines, seed=1, exact="exact" in kind, size=300)
    folder = trained_here(tmp_path / "ours", tokenizer, OWN[shape])
    regard.export(folder, tmp_path / "theirs", format="huggingface")
    ours = regard.load(folder, device="cpu")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "theirs")
    their_tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "theirs")
    for text in [*imported_text.lines(20, seed=4), *imported_text.TRICKY]:
        ids = [BEGIN, *ours.encode(text)]
        assert their_tokenizer(text).input_ids == ids, text
    ids = torch.tensor([ids[:20]])
    with torch.no_grad():
        torch.testing.assert_close(ours.model(ids), theirs(ids).logits, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"position": "sinusoidal"}, "only learned positions, not sinusoidal"),
        ({"norm": "post"}, "only norm = pre"),
        ({"attention": "dot"}, "only the attention multi_head"),
    ],
)
def test_what_no_family_computes_is_refused_in_one_line(tmp_path: Path, changes: Any, message: str) -> None:
    tokenizer = Character.train(["abc"], seed=1, size=300)
    folder = trained_here(tmp_path / "ours", tokenizer, OWN["gpt2"] | changes)
    with pytest.raises(regard.UserError, match=message):
        regard.export(folder, tmp_path / "theirs", format="huggingface")
    assert not (tmp_path / "theirs").exists()


BAD: dict[str, tuple[str, dict[str, Any], str]] = {
    "more rows": ("gpt2", {"vocab_size": 500}, "vocab_size = 500: the embedding has the shape"),
    "absurd rows": ("gpt2", {"vocab_size": 2**40}, "vocab_size"),
    "heads": ("gpt2", {"n_head": 5}, "width 24 cannot be divided among 5 heads"),
    "positions": ("gpt2", {"n_positions": 99}, "wpe.weight' has shape .* instead of"),
    "layers": ("gpt2", {"n_layer": 3}, "is missing"),
    "fewer layers": ("gpt2", {"n_layer": 1}, "is not part of this architecture"),
    "width": ("gpt2", {"n_embd": 2**20}, "model.decoder.feed_forward: wants a whole number"),
    "scores": ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, "this architecture has False"),
    "cross-attention": ("gpt2", {"add_cross_attention": True}, "this architecture has False"),
    "activation": ("gpt2", {"activation_function": "softplus"}, "not known here"),
    "no layers": ("gpt2", {"n_layer": 0}, "a whole number from 1"),
    "use": ("gpt2", {"architectures": ["GPT2ForSequenceClassification"]}, "not known here; there is: GPT2LMHeadModel"),
    "end": ("gpt2", {"eos_token_id": 4000}, "eos_token_id = 4000: ids below"),
    "untied": ("gpt2", {"tie_word_embeddings": False}, "'lm_head.weight' is missing, and config.json says"),
    "rotary": (
        "smollm2",
        {"rope_parameters": {"rope_type": "yarn", "factor": 2.0}},
        "rope_type = yarn: rotary positions",
    ),
    "rotary part": ("smollm2", {"rope_parameters": {"partial_rotary_factor": 0.5}}, "partial_rotary_factor = 0.5"),
    "rotary base": ("smollm2", {"rope_parameters": {"rope_theta": "big"}}, "rope_theta = big: a number is needed"),
    "windows": ("smollm2", {"layer_types": ["sliding_attention"] * 2}, "only full_attention is known here"),
    "groups": ("smollm2", {"num_key_value_heads": 3}, "cannot share 3 kv_heads|has shape"),
    "head": ("smollm2", {"head_dim": 7}, "rotary needs heads of an even width|has shape"),
    "quantised": ("smollm2", {"quantization_config": {"bits": 4}}, "take the model's ordinary weights"),
}


@pytest.fixture(scope="module")
def wholes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    made = {}
    for name in ("gpt2", "smollm2"):
        made[name] = tmp_path_factory.mktemp(name.replace(" ", "-"))
        maker, changes = VARIANTS[name]
        maker(made[name], **changes)
    return made


@pytest.mark.parametrize("damage", BAD)
def test_a_config_that_disagrees_is_refused_in_one_line(wholes: dict[str, Path], tmp_path: Path, damage: str) -> None:
    name, changes, message = BAD[damage]
    shutil.copytree(wholes[name], tmp_path / "folder")
    (tmp_path / "folder" / "generation_config.json").unlink(missing_ok=True)  # which comes before config.json
    config = json.loads((tmp_path / "folder" / "config.json").read_text())
    (tmp_path / "folder" / "config.json").write_text(json.dumps(config | changes))
    with pytest.raises(regard.UserError, match=message) as error:
        regard.import_model(tmp_path / "folder", tmp_path / "model")
    assert "\n" not in str(error.value) and not (tmp_path / "model").exists()


def test_a_tokenizer_larger_than_the_embedding_is_refused(wholes: dict[str, Path], tmp_path: Path) -> None:
    shutil.copytree(wholes["gpt2"], tmp_path / "folder")
    file = tmp_path / "folder" / "tokenizer.json"
    tree = json.loads(file.read_text())
    tree["model"]["vocab"]["one more"] = 400
    file.write_text(json.dumps(tree))
    with pytest.raises(regard.UserError, match="a token with the id 400, but the embedding has 400 rows"):
        regard.import_model(tmp_path / "folder", tmp_path / "model")
