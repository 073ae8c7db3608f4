"""`regard detect`: guesses with probabilities, among all languages or those named."""

from __future__ import annotations

import json


def test_guesses_of_arguments_and_lines(run_regard) -> None:
    out, err = run_regard("detect", "Wo ist der Bahnhof?", "42", "سلام، حال شما چطور است؟")
    lines = [line.split("\t") for line in out.splitlines()]
    assert [line[0] for line in lines] == ["de", "-", "fa"] and len(lines[0]) == 6 and float(lines[0][1]) > 0.9
    assert run_regard("detect", "--top", "1", stdin="Bonjour à tous\n\nGood morning\n")[0].split("\n")[1] == ""


def test_languages_that_come_into_question(run_regard) -> None:
    out, _ = run_regard("detect", "--languages", "fr,pt-BR", "--json", "Haus")
    told = json.loads(out)
    assert told["text"] == "Haus" and [one["language"] for one in told["guesses"]] in (["fr", "pt-BR"], ["pt-BR", "fr"])
    assert abs(sum(one["probability"] for one in told["guesses"]) - 1) < 1e-3
    assert {one["name"] for one in told["guesses"]} == {"French", "Portuguese (Brazil)"}
    err = run_regard("detect", "--languages", "fr,xx", "Haus", code=2)[1]
    assert err == "regard: --languages: 'xx' is no language that can be detected; use codes such as fr and de\n"
