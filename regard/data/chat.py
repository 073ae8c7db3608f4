"""Chat formats: messages -> tokens. A model's chat template, which is a program, is recognised and never run.

There are few formats in the world, and each has a handful of spellings as a template; others are refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from regard.data.tokenizer._base import Tokenizer
from regard.errors import UserError
from regard.special_tokens import BEGIN, END

MOST = 1 << 16
"""Characters of a template that is looked at."""


class Message(NamedTuple):
    """What one side said: the role is system, user or assistant."""

    role: str
    content: str


class Token(str):
    """A special token by its name: a text that reads the same is not one."""


_BEGIN, _END = Token("BEGIN"), Token("END")
Part = str


@dataclass(frozen=True)
class Format:
    """How messages are written."""

    parts: Callable[[Sequence[Message]], Iterator[Part]]
    """Texts and tokens, up to where the answer begins."""
    end: Token
    """The token that ends an answer."""
    templates: tuple[str, ...]
    """Regular expressions of the templates, as `_plain` has them; `system` is what the model is told by default."""


def _chatml(messages: Sequence[Message]) -> Iterator[Part]:
    for role, content in messages:
        yield from (Token("<|im_start|>"), f"{role}\n{content}", Token("<|im_end|>"), "\n")
    yield from (Token("<|im_start|>"), "assistant\n")


def _llama3(messages: Sequence[Message]) -> Iterator[Part]:
    yield _BEGIN
    for role, content in [*messages, Message("assistant", "")]:
        yield from (Token("<|start_header_id|>"), role, Token("<|end_header_id|>"))
        if content or role != "assistant":
            yield from (f"\n\n{content.strip()}", Token("<|eot_id|>"))
    yield "\n\n"


def _zephyr(messages: Sequence[Message]) -> Iterator[Part]:
    before = ""
    for role, content in messages:
        yield from (f"{before}<|{role}|>\n{content}", _END)
        before = "\n"
    yield "\n<|assistant|>\n"


def _llama2(messages: Sequence[Message]) -> Iterator[Part]:
    system, told = "", list(messages)
    if told[0].role == "system":
        system = f"<<SYS>>\n{told.pop(0).content}\n<</SYS>>\n\n"
    for role, content in told:
        if role == "user":
            yield from (_BEGIN, f"[INST] {(system + content).strip()} [/INST]")
            system = ""
        else:
            yield from (f" {content.strip()} ", _END)


def _plain(template: str) -> str:
    """The template without what means nothing: line breaks as escapes, double quotes, spaces beside brackets."""
    found = template.strip().replace("\n", "\\n").replace('"', "'")
    found = re.sub(r"(\{[%{]-?)\s*", r"\1 ", found)
    return re.sub(r"\s*(-?[%}]\})", r" \1", found).replace("' + '", "").replace("  ", " ")


_SPOKEN = (
    r"\{\{ '<\|im_start\|>' ?\+ ?message\['role'\] ?\+ ?'\\n' ?\+ ?message\['content'\] ?\+ ?'<\|im_end\|>\\n' \}\}"
)
_CHATML = (
    r"(?:\{% if not add_generation_prompt is defined %\}\{% set add_generation_prompt = false %\}\{% endif %\})?"
    r"\{% for message in messages %\}"
    r"(?:\{% if loop\.first and messages\[0\]\['role'\] != 'system' %\}"
    r"\{\{ '<\|im_start\|>system\\n(?P<system>[^'{}]*)<\|im_end\|>\\n' \}\}\{% endif %\})?"
    rf"{_SPOKEN}\{{% endfor %\}}"
    r"\{% if add_generation_prompt %\}\{\{ '<\|im_start\|>assistant\\n' \}\}\{% endif %\}"
)
_LLAMA3 = (
    r"\{% set loop_messages = messages %\}\{% for message in loop_messages %\}"
    r"\{% set content = '<\|start_header_id\|>' \+ message\['role'\] \+ '<\|end_header_id\|>\\n\\n' ?\+ "
    r"message\['content'\] ?\| ?trim \+ '<\|eot_id\|>' %\}"
    r"\{% if loop\.index0 == 0 %\}\{% set content = bos_token \+ content %\}\{% endif %\}\{\{ content \}\}"
    r"\{% endfor %\}(?:\{% if add_generation_prompt %\})?"
    r"\{\{ '<\|start_header_id\|>assistant<\|end_header_id\|>\\n\\n' \}\}(?:\{% endif %\})?"
)
_ZEPHYR = (
    r"\{% for message in messages %\}\\n\{% if message\['role'\] == 'user' %\}\\n"
    r"\{\{ '<\|user\|>\\n' \+ message\['content'\] \+ eos_token \}\}\\n"
    r"\{% elif message\['role'\] == 'system' %\}\\n"
    r"\{\{ '<\|system\|>\\n' \+ message\['content'\] \+ eos_token \}\}\\n"
    r"\{% elif message\['role'\] == 'assistant' %\}\\n"
    r"\{\{ '<\|assistant\|>\\n' \+ message\['content'\] \+ eos_token \}\}\\n\{% endif %\}\\n"
    r"\{% if loop\.last and add_generation_prompt %\}\\n\{\{ '<\|assistant\|>' \}\}\\n\{% endif %\}\\n\{% endfor %\}"
)
_LLAMA2 = (
    r"\{% if messages\[0\]\['role'\] == 'system' %\}\{% set loop_messages = messages\[1:\] %\}"
    r"\{% set system_message = messages\[0\]\['content'\] %\}\{% else %\}\{% set loop_messages = messages %\}"
    r"\{% set system_message = false %\}\{% endif %\}\{% for message in loop_messages %\}"
    r"\{% if \(message\['role'\] == 'user'\) != \(loop\.index0 % 2 == 0\) %\}\{\{ raise_exception\('[^'{}]*'\) \}\}"
    r"\{% endif %\}\{% if loop\.index0 == 0 and system_message != false %\}"
    r"\{% set content = '<<SYS>>\\n' \+ system_message \+ '\\n<</SYS>>\\n\\n' \+ message\['content'\] %\}"
    r"\{% else %\}\{% set content = message\['content'\] %\}\{% endif %\}"
    r"\{% if message\['role'\] == 'user' %\}\{\{ bos_token \+ '\[INST\] ' \+ content\.strip\(\) \+ ' \[/INST\]' \}\}"
    r"\{% elif message\['role'\] == 'assistant' %\}\{\{ ' ' \+ content\.strip\(\) \+ ' ' \+ eos_token \}\}"
    r"\{% endif %\}\{% endfor %\}"
)
FORMATS = {
    "chatml": Format(_chatml, Token("<|im_end|>"), (_CHATML,)),
    "llama-3": Format(_llama3, Token("<|eot_id|>"), (_LLAMA3,)),
    "zephyr": Format(_zephyr, _END, (_ZEPHYR,)),
    "llama-2": Format(_llama2, _END, (_LLAMA2,)),
}


def recognise(template: str) -> tuple[str, str] | None:
    """The format that a template writes, and its default system message; None if it is none of ours."""
    if len(template) > MOST:
        return None
    plain = _plain(template)
    for name, format in FORMATS.items():
        for pattern in format.templates:
            if found := re.fullmatch(pattern, plain):
                return name, (found.groupdict().get("system") or "").replace("\\n", "\n")
    return None


def encode(tokenizer: Tokenizer, format: str, messages: Sequence[Message]) -> list[int]:
    """The tokens of a conversation, up to where the answer begins."""
    ids: list[int] = []
    text = ""
    for part in FORMATS[format].parts(messages):
        if isinstance(part, Token):
            ids += tokenizer.encode(text) if text else []
            ids.append(token_id(tokenizer, part))
            text = ""
        else:
            text += part
    return [*ids, *(tokenizer.encode(text) if text else [])]


def end_of(tokenizer: Tokenizer, format: str) -> int:
    """The token that ends an answer."""
    return token_id(tokenizer, FORMATS[format].end)


def token_id(tokenizer: Tokenizer, token: Token) -> int:
    if token in (_BEGIN, _END):
        return BEGIN if token == _BEGIN else END
    if (found := tokenizer.id_of(token)) is None:
        raise UserError(f"the tokenizer has no token {token}, which this model's chat format needs")
    return found


def check(messages: Sequence[Message]) -> None:
    """A system message or none, then user and assistant by turns, the user last."""
    spoken = messages[1:] if messages and messages[0].role == "system" else messages
    if not len(spoken) % 2 or any(m.role != ("user", "assistant")[n % 2] for n, m in enumerate(spoken)):
        raise UserError("a conversation is a system message or none, then user and assistant by turns, the user last")
