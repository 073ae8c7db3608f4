"""`regard chat`: one answer, a conversation from a pipe, and models without a chat format."""

from __future__ import annotations

from pathlib import Path

import pytest

import regard as package
from regard.data.tokenizer.character import Character
from tests.interchange.test_chat import CHATML, folder_with
from tests.interchange.test_language_models import OWN, trained_here

from .conftest import regard


@pytest.fixture(scope="module")
def talker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("talker")
    folder_with(place / "theirs", CHATML)
    return package.import_model(place / "theirs", place / "ours")


def test_one_message_is_answered(talker: Path) -> None:
    given = ["chat", str(talker), "das Haus", "--system", "Sei kurz.", "--top-k", "1", "--length", "8"]
    ours = package.load(talker, device="cpu")
    told = [("system", "Sei kurz."), ("user", "das Haus")]
    wanted = "".join(piece.text for piece in ours.chat(told, top_k=1, length=8))
    result = regard(*given)
    assert result.returncode == 0, result.stderr
    assert result.stdout.decode() == wanted + "\n"


def test_a_conversation_from_a_pipe_remembers_its_turns(talker: Path) -> None:
    result = regard("chat", str(talker), "--top-k", "1", "--length", "5", input="das Haus\nüber die Straße\n".encode())
    assert result.returncode == 0, result.stderr
    ours, told = package.load(talker, device="cpu"), []
    for text in ("das Haus", "über die Straße"):
        told.append(("user", text))
        told.append(("assistant", "".join(piece.text for piece in ours.chat(told, top_k=1, length=5))))
    assert result.stdout.decode() == "".join(f"{text}\n" for role, text in told if role == "assistant")


def test_a_model_without_a_chat_format_is_refused_in_one_line(tmp_path: Path) -> None:
    folder = trained_here(tmp_path / "ours", Character.train(["abc"], seed=1, size=300), OWN["gpt2"])
    result = regard("chat", str(folder), "hello")
    assert result.returncode == 2 and result.stdout == b""
    assert result.stderr.count(b"\n") == 1 and b"has no chat format" in result.stderr
