"""Imported ViTs and DeiTs agree with transformers: pixel values, logits, attention; and they go back as they came."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from PIL import Image, ImageOps
from safetensors.torch import load_file, save_file

import regard
from regard.inspection.trace.base import Choice
from regard.layers.capture import capture
from regard.task.classify import Classifier
from tests.interchange.made_vits import SIDE, VARIANTS, made, picture

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

PICTURES = [picture(width=w, height=h, seed=w) for w, h in ((30, 23), (16, 16), (9, 40), (24, 24))]


@dataclass
class Pair:
    name: str
    source: Path
    theirs: Any
    processor: Any
    folder: Path
    ours: Classifier

    @property
    def pictures(self) -> list[Image.Image]:
        return [one.convert("L") for one in PICTURES] if self.theirs.config.num_channels == 1 else PICTURES

    def pixel_values(self) -> torch.Tensor:
        found = self.processor(self.pictures, return_tensors="pt").pixel_values
        assert isinstance(found, torch.Tensor)
        return found


@pytest.fixture(scope="module", params=VARIANTS)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    source, place = tmp_path_factory.mktemp("theirs"), tmp_path_factory.mktemp("ours") / "model"
    theirs = made(source, request.param)
    regard.import_model(source, place)
    processor = transformers.AutoImageProcessor.from_pretrained(source)
    return Pair(request.param, source, theirs, processor, place, regard.load(place, device="cpu"))


def encoded(task: Classifier, images: list[Any]) -> torch.Tensor:
    return torch.from_numpy(np.stack([task.pair.input.encode(task.pair.input.accept(one)) for one in images]))


def logits(task: Classifier, images: list[Any]) -> torch.Tensor:
    with torch.no_grad():
        found = task.model(encoded(task, images), torch.ones(len(images), 1, dtype=torch.bool))
    assert isinstance(found, torch.Tensor)
    return found


def test_logits_agree_and_a_batch_equals_each_alone(pair: Pair) -> None:
    pixels = pair.pixel_values()
    torch.testing.assert_close(encoded(pair.ours, pair.pictures), pixels, atol=1e-5, rtol=0)
    found = logits(pair.ours, pair.pictures)
    if pair.name == "vit-bare":  # it has no output layer: the states are compared, and the labels mean nothing
        assert not found.any()
        mask = torch.ones(len(pair.pictures), 1, dtype=torch.bool)
        with torch.no_grad():
            found = pair.ours.model.encoder(*pair.ours.model.stem(pixels, mask)).states
            wanted = pair.theirs(pixels).last_hidden_state
        torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-4)
        return
    with torch.no_grad():
        wanted = pair.theirs(pixels).logits
    assert wanted.std() > 0.1
    torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(
        torch.cat([logits(pair.ours, [one]) for one in pair.pictures]), found, atol=1e-5, rtol=1e-5
    )


def test_labels_have_their_names_and_probabilities(pair: Pair) -> None:
    usual = ["LABEL_0", "LABEL_1"]
    names = usual if "id2label" not in VARIANTS[pair.name][1] else ["cat", "sea gull", "cat (2)", "7"]
    assert pair.ours.labels.names == names
    one = pair.ours.classify(pair.pictures[0])
    wanted = logits(pair.ours, pair.pictures[:1]).softmax(-1)[0]
    assert list(one.probabilities.values()) == sorted(wanted.tolist(), reverse=True)
    assert one.label == names[int(wanted.argmax())]


def test_what_is_watched_is_what_transformers_computes(pair: Pair) -> None:
    """Watched equals unwatched, the weights are theirs, and the numbers of a head lead to what the model computed."""
    source, mask = encoded(pair.ours, pair.pictures[:1]), torch.ones(1, 1, dtype=torch.bool)
    with torch.no_grad(), capture(pair.ours.model):
        torch.testing.assert_close(
            pair.ours.model(source, mask), logits(pair.ours, pair.pictures[:1]), atol=1e-5, rtol=1e-5
        )
    trace: Any = pair.ours.inspect(np.asarray(pair.pictures[0]))
    pair.theirs.set_attn_implementation("eager")
    with torch.no_grad():
        wanted = pair.theirs(pair.pixel_values()[:1], output_attentions=True).attentions
    pair.theirs.set_attn_implementation("sdpa")
    assert len(trace.attention) == len(wanted) == 2
    for ours, theirs in zip(trace.attention, wanted):
        torch.testing.assert_close(torch.as_tensor(ours.weights), theirs[0], atol=1e-5, rtol=1e-4)
    tokens = ["class", "distillation"][: 1 + ("deit" in pair.name)]
    assert trace.tokens("source")[: len(tokens) + 1] == [*tokens, "r0 c0"]
    assert trace.calculation_of(Choice(layer=1, head=3, position=len(tokens))).difference < 1e-5
    for view in ("patches", "heads", "numbers", "why"):
        assert all(one.svg().startswith("<svg") for one in trace.view(view, position=0).pictures)


def test_it_goes_back_to_transformers_and_comes_again(pair: Pair, tmp_path: Path) -> None:
    regard.export(pair.folder, tmp_path / "back", format="huggingface")
    again = transformers.AutoModelForImageClassification.from_pretrained(tmp_path / "back")
    processor = transformers.AutoImageProcessor.from_pretrained(tmp_path / "back")
    pixels = processor(pair.pictures, return_tensors="pt").pixel_values
    with torch.no_grad():
        torch.testing.assert_close(again(pixels).logits, logits(pair.ours, pair.pictures), atol=1e-5, rtol=1e-5)
    assert list(again.config.id2label.values()) == pair.ours.labels.names
    if pair.name in ("vit", "deit"):
        wanted = pair.theirs.state_dict()
        assert again.state_dict().keys() == wanted.keys()
        assert all(torch.equal(tensor, wanted[name]) for name, tensor in again.state_dict().items())
    regard.import_model(tmp_path / "back", tmp_path / "again")
    third = regard.load(tmp_path / "again", device="cpu")
    assert third.pair.files() == pair.ours.pair.files() and third.recipe.model == pair.ours.recipe.model
    for one, other in zip(third.model.parameters(), pair.ours.model.parameters(), strict=True):
        assert torch.equal(one, other)


def newer_names(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The names that transformers 5 has in memory."""
    changes = [(r"encoder\.layer\.", "layers."), (r"attention\.attention\.(\w)\w+\.", r"attention.\1_proj.")]
    changes += [(r"attention\.output\.dense", "attention.o_proj"), (r"intermediate\.dense", "mlp.fc1")]
    changes += [(r"(?<!attention\.)output\.dense", "mlp.fc2")]
    found = {}
    for name, tensor in tensors.items():
        for old, new in changes:
            name = re.sub(old, new, name)
        found[name] = tensor
    return found


FILES = [("vit", "safetensors"), ("vit-bare", "safetensors"), ("deit-teacher", "safetensors"), ("vit", "bin")]


@pytest.mark.parametrize(("name", "ending"), FILES)
def test_newer_names_and_older_files_are_read(tmp_path: Path, name: str, ending: str) -> None:
    model = made(tmp_path / "theirs", name)
    regard.import_model(tmp_path / "theirs", tmp_path / "one")
    file = tmp_path / "theirs" / "model.safetensors"
    tensors = load_file(file)
    if ending == "safetensors":
        renamed = newer_names(tensors)
        assert renamed.keys() == model.state_dict().keys() != tensors.keys()
        save_file(renamed, file)
    else:
        file.unlink()
        torch.save(tensors, tmp_path / "theirs" / "pytorch_model.bin")
    regard.import_model(tmp_path / "theirs", tmp_path / "other")
    one, other = (load_file(tmp_path / each / "weights.safetensors") for each in ("one", "other"))
    assert one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


PROCESSORS: dict[str, dict[str, Any]] = {
    "a number": {"size": SIDE},
    "two numbers": {"size": [SIDE, SIDE], "resample": 3, "feature_extractor_type": "ViTFeatureExtractor"},
    "nearest": {
        "size": {"height": SIDE, "width": SIDE},
        "resample": 0,
        "image_processor_type": "ViTImageProcessorFast",
    },
    "DeiT": {
        "image_processor_type": "DeiTImageProcessor",
        "size": {"height": 20, "width": 20},
        "crop_size": SIDE,
        "image_mean": [0.485, 0.456, 0.406],
        "image_std": [0.229, 0.224, 0.225],
    },
    "older DeiT": {"feature_extractor_type": "DeiTFeatureExtractor", "size": 19, "crop_size": SIDE, "resample": 3},
    "small before the crop": {
        "image_processor_type": "DeiTImageProcessor",
        "size": {"height": 13, "width": 13},
        "crop_size": {"height": SIDE, "width": SIDE},
    },
    "short side": {
        "image_processor_type": "BitImageProcessor",
        "size": {"shortest_edge": 18},
        "crop_size": {"height": SIDE, "width": SIDE},
    },
    "CLIP": {"image_processor_type": "CLIPImageProcessor", "size": 17, "crop_size": SIDE, "resample": 2},
    "not resized": {"do_resize": False, "do_center_crop": True, "crop_size": SIDE},
    "other factor": {"size": SIDE, "rescale_factor": 1 / 127.5, "image_mean": 1.0, "image_std": 1.0, "resample": 1},
    "not normalised": {"size": SIDE, "do_normalize": False, "resample": 4},
    "not rescaled": {"size": SIDE, "do_rescale": False, "image_mean": [120.0, 110, 100], "image_std": [60.0, 50, 40]},
}
MODES = ("RGB", "L", "P", "P transparent", "RGBA", "LA", "1", "CMYK")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    made(folder, "vit")
    return folder


def copy_of(whole: Path, folder: Path) -> Path:
    folder.mkdir()
    for file in whole.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    return folder


@pytest.mark.parametrize("kind", PROCESSORS)
def test_pixel_values_are_those_of_their_processor(whole: Path, tmp_path: Path, kind: str) -> None:
    """Every size and mode of a picture, also where the camera was turned."""
    folder = copy_of(whole, tmp_path / "theirs")
    (folder / "preprocessor_config.json").write_text(json.dumps(PROCESSORS[kind]))
    regard.import_model(folder, tmp_path / "model")
    task = regard.load(tmp_path / "model", device="cpu")
    again = type(task.pair.input).from_files(task.pair.input.files())
    processor = transformers.AutoImageProcessor.from_pretrained(folder, do_convert_rgb=True)
    for number, (width, height) in enumerate(((30, 23), (16, 16), (20, 20), (9, 40), (55, 11), (7, 7))):
        for mode in MODES if number == 0 else MODES[number % 2 :: 3]:
            image = picture(mode, width, height, number)
            wanted = processor(image, return_tensors="np").pixel_values[0]
            found = task.pair.input.encode(task.pair.input.accept(image))
            np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=2e-6, err_msg=f"{mode} {width} x {height}")
            assert np.array_equal(again.encode(task.pair.input.accept(image)), found)
    for orientation in (3, 6, 7):
        exif = Image.Exif()
        exif[0x0112] = orientation
        file = tmp_path / f"{orientation}.png"
        picture(width=31, height=18).save(file, exif=exif)
        wanted = processor(ImageOps.exif_transpose(Image.open(file)), return_tensors="np").pixel_values[0]
        found = task.pair.input.encode(task.pair.input.read(str(file)))
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=2e-6)


BAD: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "patches": ({"patch_size": 5}, {}, "patch_size = 5: does not divide pictures of 16 x 16"),
    "other patches": ({"patch_size": 8}, {}, "position_embeddings' has shape .* instead of"),
    "rectangle": ({"image_size": [16, 32]}, {}, "image_size = .*: only squares are known here"),
    "pictures of an absurd size": ({"image_size": 2**40}, {}, "image_size = .*: a side of 1 to 1024 pixels"),
    "channels": ({"num_channels": 4}, {}, "num_channels = 4: 1 .grey. or 3"),
    "absurd width": ({"hidden_size": 2**20}, {}, "shape|wants a whole number"),
    "absurd layers": ({"num_hidden_layers": 10**9}, {}, "num_hidden_layers = 1000000000"),
    "one more layer": ({"num_hidden_layers": 3}, {}, "encoder.layer.2.* is missing"),
    "one layer fewer": ({"num_hidden_layers": 1}, {}, "is not part of this architecture"),
    "heads": ({"num_attention_heads": 5}, {}, "width 24 cannot be divided among 5 heads"),
    "biases": ({"qkv_bias": False}, {}, "key.bias' is not part of this architecture"),
    "activation": ({"hidden_act": "quick_gelu"}, {}, "hidden_act = quick_gelu: not known here"),
    "use": ({"architectures": ["ViTForMaskedImageModeling"]}, {}, "architectures = .*: not known here; there is"),
    "several labels": ({"problem_type": "multi_label_classification"}, {}, "only single_label_classification"),
    "fewer labels": ({"id2label": {"0": "a"}}, {}, "1 labels, but the output layer has 4 rows"),
    "a label is missing": ({"id2label": {"0": "a", "1": "b", "2": "c", "7": "d"}}, {}, "and 3 has none"),
    "labels are numbers": ({"id2label": {str(n): n for n in range(4)}}, {}, "id2label = .* and 0 has none"),
    "count of labels": ({"id2label": None, "num_labels": 1000}, {}, "1000 labels, but the output layer has 4 rows"),
    "processor": ({}, {"image_processor_type": "BeitImageProcessor"}, "not known here; there is: ViTImageProcessor"),
    "step": ({}, {"do_flip_channel_order": True}, "do_flip_channel_order = True: this step is not known here"),
    "padding": ({}, {"do_pad": True}, "do_pad = True: this step is not known here"),
    "share that is cropped": ({}, {"crop_pct": 0.9}, "crop_pct = 0.9: this step is not known here"),
    "pictures of another size": ({}, {"size": 32}, "makes pictures of 32 x 32 pixels, but the model reads 16"),
    "no crop": ({}, {"size": {"shortest_edge": 16}}, "do_center_crop must be true"),
    "longest side": ({}, {"size": {"longest_edge": 16}}, "only height and width, or shortest_edge"),
    "rectangles": ({}, {"size": {"height": 16, "width": 20}}, "only squares are known here"),
    "absurd size": ({}, {"size": 10**12}, "a side of 1 to 1024 pixels is needed"),
    "size": ({}, {"size": "big"}, "a side of 1 to 1024 pixels is needed"),
    "filter": ({}, {"resample": 9}, "resample = 9: not known here"),
    "mean": ({}, {"image_mean": [0.5]}, "image_mean = .*: 3 numbers are needed"),
    "mean is no number": ({}, {"image_mean": [0.5, float("nan"), 0]}, "image_mean = .*: 3 numbers are needed"),
    "spread": ({}, {"image_std": [0.5, 0, 1]}, "image_std = .*: larger numbers are needed"),
    "factor": ({}, {"rescale_factor": -1}, "rescale_factor = -1: a number from"),
    "flag": ({}, {"do_resize": "no"}, "do_resize = no: true or false is needed"),
}


@pytest.mark.parametrize("damage", BAD)
def test_what_disagrees_or_is_not_known_is_refused_in_one_line(whole: Path, tmp_path: Path, damage: str) -> None:
    config, processor, message = BAD[damage]
    folder = copy_of(whole, tmp_path / "theirs")
    for file, changes in (("config.json", config), ("preprocessor_config.json", processor)):
        tree = json.loads((folder / file).read_text())
        (folder / file).write_text(json.dumps({**tree, **changes}))
    with pytest.raises(regard.UserError, match=message) as error:
        regard.import_model(folder, tmp_path / "model")
    assert "\n" not in str(error.value) and not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("classifier.weight", "'classifier.weight' is missing"),
        ("vit.embeddings.cls_token", "'vit.embeddings.cls_token' is missing"),
        ("vit.encoder.layer.1.output.dense.bias", "is missing"),
    ],
)
def test_a_missing_tensor_is_named(whole: Path, tmp_path: Path, name: str, message: str) -> None:
    folder = copy_of(whole, tmp_path / "theirs")
    tensors = load_file(folder / "model.safetensors")
    del tensors[name]
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(regard.UserError, match=message):
        regard.import_model(folder, tmp_path / "model")


def test_other_tensors_and_a_missing_processor_are_refused(whole: Path, tmp_path: Path) -> None:
    folder = copy_of(whole, tmp_path / "theirs")
    tensors = load_file(folder / "model.safetensors")
    save_file({**tensors, "vit.embeddings.mask_token": torch.zeros(1, 1, 24)}, folder / "model.safetensors")
    with pytest.raises(regard.UserError, match="mask_token' is not part of this architecture"):
        regard.import_model(folder, tmp_path / "model")
    (folder / "preprocessor_config.json").unlink()
    with pytest.raises(regard.UserError, match="preprocessor_config.json is missing"):
        regard.import_model(folder, tmp_path / "model")


def test_a_very_narrow_picture_is_refused_before_it_is_resized(whole: Path, tmp_path: Path) -> None:
    folder = copy_of(whole, tmp_path / "theirs")
    (folder / "preprocessor_config.json").write_text(json.dumps(PROCESSORS["short side"]))
    regard.import_model(folder, tmp_path / "model")
    with pytest.raises(regard.UserError, match="is too narrow for this model"):
        regard.load(tmp_path / "model", device="cpu").classify(np.zeros((100_000, 1, 3), np.uint8))


@pytest.mark.parametrize("name", ["vit", "deit-teacher", "vit-bare"])
def test_its_encoder_is_trained_on_for_other_labels(tmp_path: Path, name: str) -> None:
    made(tmp_path / "theirs", name)
    regard.import_model(tmp_path / "theirs", tmp_path / "model")
    run = regard.train(
        regard.config.tiny_form(regard.config.read_recipe("vit-cifar")),
        "data.format.count=60",
        "training.learning_rate=1e-9",
        start_from=tmp_path / "model",
        steps=1,
        device="cpu",
        out=tmp_path / "run",
        quiet=True,
    )
    before, after = regard.load(tmp_path / "model", device="cpu"), run.model
    assert after.labels.names == ["circle", "cross", "square", "triangle"]
    assert after.pair.input.files() == before.pair.input.files()
    kept = before.model.state_dict()
    for key, tensor in after.model.state_dict().items():
        if not key.startswith("head."):
            torch.testing.assert_close(tensor, kept[key], atol=1e-6, rtol=1e-6)
