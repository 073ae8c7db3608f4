"""Base classes and field types of task requests: every field is bounded before anything is computed."""

from __future__ import annotations

import base64
from typing import Annotated, Any, ClassVar, cast

from pydantic import BaseModel, ConfigDict, Field

MAX_CHARACTERS = 1_000_000
"""Characters of one text, whatever the server's own limit is."""
MAX_TEXTS = 100_000
MAX_BEAM = 1000
IMAGES = ("image/png", "image/jpeg", "image/gif", "image/bmp", "image/webp")
SOUNDS = ("audio/wav", "audio/flac", "audio/ogg")
CLIPS = ("image/gif",)
BODY = "body"
"""Name of an uploaded file in messages."""

Name = Annotated[str, Field(max_length=100, pattern=r"^[A-Za-z0-9._-]*$")]
Text = Annotated[str, Field(max_length=MAX_CHARACTERS)]
Texts = Text | Annotated[list[Text], Field(fail_fast=True, min_length=1, max_length=MAX_TEXTS)]
Rows = Annotated[
    list[
        Annotated[
            list[Annotated[float, Field(ge=-1e18, le=1e18)]], Field(fail_fast=True, min_length=1, max_length=1000)
        ]
    ],
    Field(fail_fast=True, min_length=1, max_length=10_000),
]
"""A time series: one row per step, one number per column that the model was trained on."""
Beam = Annotated[int, Field(ge=1, le=MAX_BEAM)]


class TaskRequest(BaseModel):
    """A JSON object, validated strictly: unknown keys are refused, not ignored."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    model: Name = Field("", description="A name from GET /api/models; required if several models serve this task.")

    def texts(self) -> list[str]:
        """The texts that count towards the server's limits."""
        return []

    def streamed(self) -> bool:
        """Whether the answer is sent in parts."""
        return False


class TextTaskRequest(TaskRequest):
    """A text, or several."""

    text: Texts

    def texts(self) -> list[str]:
        return [self.text] if isinstance(self.text, str) else self.text


class FileTaskRequest(TaskRequest):
    """A file as the body, with options in the query string, where all values are strings."""

    model_config = ConfigDict(strict=False)

    media: ClassVar[tuple[str, ...]]
    """Accepted Content-Types. The actual format is detected from the content."""

    content: str = Field("", description="The file in base64, as it is sent to workers.")

    def file(self) -> bytes:
        return base64.b64decode(self.content)


def example(tree: dict[str, Any]) -> ConfigDict:
    """The example in a schema."""
    return ConfigDict(json_schema_extra={"example": tree})


def example_of(form: type[BaseModel]) -> dict[str, Any]:
    extra = form.model_config["json_schema_extra"]
    assert isinstance(extra, dict)
    return cast(dict[str, Any], extra["example"])
