"""The exported ONNX files, run by onnxruntime, say what we say."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.assemble import build_model, resolve_model
from regard.config import Recipe
from regard.data.batching import pad
from regard.data.tokenizer.word import Word
from regard.decoding.greedy import greedy
from regard.decoding.rules import Forbid, MinLength
from regard.errors import UserError
from regard.interchange import export
from regard.loading import model_files
from regard.storage import write_folder
from regard.types import BEGIN, END

pytest.importorskip("onnx")
pytest.importorskip("onnxscript")
onnxruntime = pytest.importorskip("onnxruntime")

WORDS = Word([f"▁w{i}" for i in range(40)])
SHAPE = {"width": 16, "heads": 2, "layers": 2, "feed_forward": 32, "dropout": 0.0, "scale": False}
KINDS = {
    "like Marian": {"position": "sinusoidal_halves", "activation": "silu", "decoder": {"output_bias": True}},
    "like T5": {
        "encoder": {"layers": 1}, "norm": "pre", "norm_kind": "rms", "bias": False, "gated": True, "head_width": 4, "position": "none",
        "relative_position": {"kind": "buckets", "buckets": 8, "distance": 20}, "activation": "gelu_tanh",
    },
    "like BART": {
        "position": {"kind": "learned", "length": 40}, "embedding_norm": True, "share": False, "activation": "gelu",
        "decoder": {"tie": False, "layers": 1},
    },
}  # fmt: skip
LENGTH = 9


def written(tree: dict, place: Path):
    torch.manual_seed(3)
    shape = resolve_model({**SHAPE, **tree})
    model = build_model(shape, len(WORDS)).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim > 1:
                parameter.normal_(std=1.0 if "table" in name else 2.0 if "cross" in name else 0.6)
            else:
                parameter.normal_(mean=float("norm.weight" in name), std=0.1)
    recipe = Recipe(model=shape, tokenizer={"kind": "word"})
    write_folder(place, model_files(recipe, WORDS, dict(model.named_parameters()), "float32"))
    return model


class Runtime:
    """What a program that knows only config.json does."""

    def __init__(self, folder: Path):
        self.config = json.loads((folder / "config.json").read_text())
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.encoder, self.decoder = (
            onnxruntime.InferenceSession(folder / self.config[part]["file"], options, ["CPUExecutionProvider"])
            for part in ("encoder", "decoder")
        )

    def start(self, ids: np.ndarray, mask: np.ndarray) -> dict[str, np.ndarray]:
        memory = self.encoder.run(None, {"input_ids": ids, "attention_mask": mask})
        known = dict(zip(self.config["encoder"]["outputs"], memory)) | {"attention_mask": mask}
        _, _, heads, width = self.config["cache_shape"]
        empty = np.zeros((len(ids), 0, heads, width), np.float32)
        return known | {name: empty for name in self.config["decoder"]["inputs"] if name.startswith("past_")}

    def step(self, ids: np.ndarray, state: dict[str, np.ndarray]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        logits, *present = self.decoder.run(None, {"input_ids": ids, **state})
        names = self.config["decoder"]["outputs"][1:]
        return logits, state | {n.replace("present_", "past_"): one for n, one in zip(names, present)}

    def greedy(self, ids: np.ndarray, mask: np.ndarray) -> list[list[int]]:
        state, last = self.start(ids, mask), np.full((len(ids), 1), self.config["special_tokens"]["begin"])
        texts: list[list[int]] = [[] for _ in ids]
        over = [False] * len(ids)
        for _ in range(LENGTH):
            logits, state = self.step(last, state)
            logits[..., self.config["never_written"]] = -np.inf
            last = logits[:, -1].argmax(-1)[:, None]
            for row, token in enumerate(last[:, 0]):
                over[row] = over[row] or token == self.config["special_tokens"]["end"]
                texts[row] += [] if over[row] else [int(token)]
        return texts


@pytest.mark.parametrize(
    "kind", ["like T5", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("like Marian", "like BART"))]
)
def test_logits_and_texts_are_ours(kind, tmp_path):
    model = written(KINDS[kind], tmp_path / "model")
    folder = export(tmp_path / "model", tmp_path / "onnx", format="onnx")
    assert {path.name for path in folder.iterdir()} == {"encoder.onnx", "decoder.onnx", "config.json", "tokenizer.json"}
    runtime = Runtime(folder)
    random = np.random.default_rng(2)
    sources = [[*random.integers(4, 44, length).tolist(), END] for length in (1, 5, 8, 3, 12, 7, 2, 6)]
    ids, mask = pad(sources)
    target = torch.tensor(random.integers(4, 44, (len(sources), 6)))
    target[:, 0] = BEGIN
    with torch.no_grad():
        expected = model(ids, mask, target)
        texts = greedy(
            model.decoder, model.encode(ids, mask), max_lengths=torch.full((len(sources),), LENGTH),
            rules=[MinLength(0), Forbid()],
        )  # fmt: skip
    given = ids.numpy(), mask.long().numpy()
    whole, _ = runtime.step(target.numpy(), runtime.start(*given))
    np.testing.assert_allclose(whole, expected.numpy(), atol=1e-4)
    state, parts = runtime.start(*given), []
    for start, stop in ((0, 1), (1, 4), (4, 6)):
        logits, state = runtime.step(target.numpy()[:, start:stop], state)
        parts.append(logits)
    np.testing.assert_allclose(np.concatenate(parts, 1), expected.numpy(), atol=1e-4)
    assert runtime.greedy(*given) == [one.ids for one in texts]
    alone = [runtime.greedy(np.array([one]), np.ones((1, len(one)), np.int64))[0] for one in sources]
    assert alone == [one.ids for one in texts]
    assert len({tuple(one.ids) for one in texts}) > 2
    assert not any(str(Path(torch.__file__).parent).encode() in path.read_bytes() for path in folder.iterdir())


def test_what_cannot_be_exported_is_refused(tmp_path):
    written({"decoder": "ssru"}, tmp_path / "model")
    with pytest.raises(UserError, match="decoder is of the kind ssru"):
        export(tmp_path / "model", tmp_path / "onnx", format="onnx")
    with pytest.raises(UserError, match="float32"):
        export(tmp_path / "model", tmp_path / "onnx", format="onnx", precision="int8")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
