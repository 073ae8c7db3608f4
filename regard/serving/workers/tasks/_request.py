"""What requests are made of: fields that are bounded before anything is computed, and files that are only bytes."""

from __future__ import annotations

import base64
from typing import Annotated, Any, ClassVar, cast

from pydantic import BaseModel, ConfigDict, Field

LONGEST = 1_000_000
"""Characters of one text, whatever a server's own limit is."""
MOST_TEXTS = 100_000
MOST_BEAM = 1000
PICTURES = ("image/png", "image/jpeg", "image/gif", "image/bmp", "image/webp")
SOUNDS = ("audio/wav", "audio/flac", "audio/ogg")
CLIPS = ("image/gif",)
BODY = "body"
"""What messages call a file that was sent: it has no name here."""

Name = Annotated[str, Field(max_length=100, pattern=r"^[A-Za-z0-9._-]*$")]
Text = Annotated[str, Field(max_length=LONGEST)]
Texts = Text | Annotated[list[Text], Field(fail_fast=True, min_length=1, max_length=MOST_TEXTS)]
Rows = Annotated[
    list[
        Annotated[
            list[Annotated[float, Field(ge=-1e18, le=1e18)]], Field(fail_fast=True, min_length=1, max_length=1000)
        ]
    ],
    Field(fail_fast=True, min_length=1, max_length=10_000),
]
"""A series: a row for each step, in it a number for each of the columns that the model was trained on."""
Beam = Annotated[int, Field(ge=1, le=MOST_BEAM)]


class Asked(BaseModel):
    """A JSON object. Values are of the type they should be, and a key that is not known is refused, not ignored."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    model: Name = Field("", description="A name that GET /api/models tells; needed where several models do this task.")

    def texts(self) -> list[str]:
        """What the server's limits of characters and texts are about."""
        text = getattr(self, "text", None)
        return [] if text is None else [text] if isinstance(text, str) else text


class AskedOfFile(Asked):
    """A file as the body, and a query string that says what to do with it: its values are all written as text."""

    model_config = ConfigDict(strict=False)

    media: ClassVar[tuple[str, ...]]
    """What the file may be called by the client. What it is, its content alone says."""

    content: str = Field("", description="The file in base64, as workers are sent it.")

    def file(self) -> bytes:
        return base64.b64decode(self.content)


def example(tree: dict[str, Any]) -> ConfigDict:
    """What a schema shows as an example of itself."""
    return ConfigDict(json_schema_extra={"example": tree})


def example_of(form: type[BaseModel]) -> dict[str, Any]:
    extra = form.model_config["json_schema_extra"]
    assert isinstance(extra, dict)
    return cast(dict[str, Any], extra["example"])
