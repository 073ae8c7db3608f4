"""`regard inspect`: every output format, and mistakes in one line."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest

BEGINNINGS = {"html": b"<!doctype html>", "svg": b"<svg ", "png": b"\x89PNG", "json": b"{"}


@pytest.mark.parametrize("ending", BEGINNINGS)
def test_every_form(model, tmp_path, ending, run_regard) -> None:
    file = tmp_path / f"seen.{ending}"
    out, err = run_regard("inspect", model, "je suis étudiant.", "-o", file)
    assert file.read_bytes().startswith(BEGINNINGS[ending]) and out == ""
    assert err.startswith("regard: ") and err.count("\n") == 1
    if ending == "svg":
        ElementTree.fromstring(file.read_bytes())
    if ending == "json":
        tree = json.loads(file.read_bytes())
        assert tree["source"]["text"] == "je suis étudiant." and len(tree["attention"]) == 3 and tree["search"]


def test_mistakes_are_one_line(model, tmp_path, run_regard) -> None:
    out = str(tmp_path / "x.svg")
    for arguments, message in [
        ((model, "oui", "-o", str(tmp_path / "x.gif")), ".html, .svg, .png, .json"),
        ((model, "", "-o", out), "nothing to inspect"),
        ((model, "oui", "-o", out, "--view", "gates"), "no gates"),
        ((model, "oui", "-o", out, "--view", "heads", "--head", "7"), "heads 0 to 1"),
        ((str(tmp_path), "oui", "-o", out), "no model"),
        ((model, "oui", "-o", out, "--view", "what-if"), "name what to switch off"),
        ((model, "oui", "-o", out, "--without", "encoder.0"), "are for --view what-if"),
    ]:
        _, err = run_regard("inspect", *arguments, code=2)
        assert message in err and err.count("\n") == 1, err
    assert not list(tmp_path.iterdir())


def test_what_if_and_the_logit_lens(model, tmp_path, run_regard) -> None:
    off = ("--without", "encoder.0.self.head.0", "--without", "decoder.0.cross", "--mean")
    for ending in BEGINNINGS:
        file = tmp_path / f"without.{ending}"
        run_regard("inspect", model, "je suis étudiant.", "-o", file, "--view", "what-if", *off)
        assert file.read_bytes().startswith(BEGINNINGS[ending])
    found = json.loads((tmp_path / "without.json").read_bytes())["what_if"]
    assert found["without"] == ["encoder.0.self.head.0", "decoder.0.cross"] and found["by"] == "mean"
    patch = ("--patch", "encoder.0.output@1=2", "--other", "oui, bien sûr.")
    run_regard("inspect", model, "je suis étudiant.", "-o", tmp_path / "p.json", "--view", "what-if", *patch)
    assert json.loads((tmp_path / "p.json").read_bytes())["what_if"]["other"] == "oui, bien sûr."
    run_regard("inspect", model, "je suis étudiant.", "-o", tmp_path / "lens.json", "--view", "logit-lens")
    tree = json.loads((tmp_path / "lens.json").read_bytes())
    assert [layer["name"] for layer in tree["logit_lens"]["layers"]][:2] == ["embedding", "layer 0"]


def test_ablate_prints_a_line_per_part(model, tmp_path, run_regard) -> None:
    source, target = tmp_path / "a.fr", tmp_path / "a.en"
    source.write_text("je suis étudiant.\noui.\n")
    target.write_text("I am a student.\nyes.\n")
    pair = ("--source", source, "--target", target)
    out, err = run_regard("ablate", model, *pair, "--beam", 1)
    lines = out.splitlines()
    assert lines[0].split()[:3] == ["without", "BLEU", "change"] and lines[1].startswith("nothing") and err == ""
    assert lines[2].startswith("encoder.0.self.head.0 ") and lines[2].endswith(" of 2")
    out, _ = run_regard("ablate", model, *pair, "--layers", "--mean", "--limit", 1, "--json")
    found = json.loads(out)
    assert found["lines"] == 1 and [one["part"] for one in found["ablations"]][:2] == ["", "encoder.0"]
    for arguments, message in [((), "--source FILE --target FILE"), (("--source", tmp_path / "none"), "none")]:
        _, err = run_regard("ablate", model, *arguments, code=2)
        assert message in err and err.count("\n") == 1


def test_index_and_what_is_near(model, tmp_path, run_regard, monkeypatch) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    source, target, file = tmp_path / "a.fr", tmp_path / "a.en", tmp_path / "near.json"
    source.write_text("je suis étudiant.\noui.\noù est la gare ?\n")
    target.write_text("je est\noui\nla gare\n")
    near = ("inspect", model, "je suis étudiant.", "-o", file, "--view", "near", "--attention", "source")
    _, err = run_regard(*near, code=2)
    assert "regard index MODEL" in err and not file.exists()
    out, err = run_regard("index", model, "--source", source, "--target", target)
    assert out == "" and "of 3 pairs" in err and err.count("\n") == 1
    run_regard(*near, "--position", 0)
    found = json.loads(file.read_bytes())["near"]
    assert found["word"] == "je" and found["neighbours"][0]["source"] == ["je", "suis", "étudiant."]
    own = tmp_path / "own"
    run_regard("index", model, "--source", source, "--target", target, "-o", own, "--limit", 2, "-q")
    run_regard(*near, "--index", own)
    assert json.loads(file.read_bytes())["near"]["sentences"] == 2
    _, err = run_regard("index", model, code=2)
    assert "--source FILE --target FILE" in err and err.count("\n") == 1
