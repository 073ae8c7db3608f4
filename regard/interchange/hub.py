"""Models of the Hugging Face hub: which files are needed, their download by `huggingface_hub`, and their hashes.

Files arrive in that library's own cache (HF_HOME), which other programs share. HF_ENDPOINT, HF_TOKEN and HF_HUB_OFFLINE
mean what they mean there.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from regard.errors import UserError
from regard.imported_models import HubName
from regard.terminal_text import escape_control_characters, one_line

Note = Callable[[str], None]
Show = Callable[[int, int, str], None]
"""Progress: bytes so far, bytes in total, file name."""

CONFIGURATION = ("config.json", "generation_config.json", "preprocessor_config.json", "processor_config.json")
TOKENIZERS = (
    "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json", "target_vocab.json",
    "source.spm", "target.spm", "spiece.model", "sentencepiece.bpe.model", "sentencepiece.model", "tokenizer.model",
    "spm.model", "source.model", "target.model",
    "tokenizer.json", "merges.txt", "vocab.txt", "chat_template.jinja",
)  # fmt: skip
CTRANSLATE2 = (
    "model.bin", "shared_vocabulary.json", "source_vocabulary.json", "target_vocabulary.json", "vocabulary.json",
    "shared_vocabulary.txt", "source_vocabulary.txt", "target_vocabulary.txt", "vocabulary.txt",
)  # fmt: skip
KNOWN = frozenset((*CONFIGURATION, *TOKENIZERS, *CTRANSLATE2, "model.safetensors", "pytorch_model.bin"))
WEIGHTS = ("model.safetensors", "pytorch_model.bin", "model.bin")
"""Where the weights may be, best first; either of the first two may be in shards."""
SMALL_LIMIT = 64_000_000
"""Bytes of a file that holds no weights."""
WEIGHTS_LIMIT = 200_000_000_000
MOST_FILES = 20_000
SHOWN_AFTER = 2.0
"""Seconds after which the progress of a download is shown."""


class RepositoryFile(NamedTuple):
    name: str
    size: int
    sha256: str
    """Of a large file (LFS); else empty, and `git` is the hash of the blob."""
    git: str


class Fetched(NamedTuple):
    folder: Path
    """All files, as regular ones."""
    commit: str
    licence: str


def needed(names: Iterable[str]) -> list[str]:
    """Of a repository's files those that are read: configuration, tokenizer, and one form of the weights."""
    offered = set(names)
    for weights in WEIGHTS:
        stem, _, ending = weights.rpartition(".")
        shard = re.compile(rf"{re.escape(stem)}-[0-9]{{5}}-of-[0-9]{{5}}\.{ending}")
        if weights in offered:
            found = [weights]
        elif weights != "model.bin" and f"{weights}.index.json" in offered:
            found = [f"{weights}.index.json", *sorted(filter(shard.fullmatch, offered))]
        else:
            continue
        others = (*CONFIGURATION, *TOKENIZERS, *(CTRANSLATE2 if weights == "model.bin" else ()))
        return [*(name for name in others if name in offered and name not in found), *found]
    return []


def fetch(model: HubName, into: Path, note: Note, show: Show) -> Fetched:
    """Puts the files of a model that are needed into the empty folder `into`."""
    try:
        import huggingface_hub
        from huggingface_hub import constants, errors
    except ImportError:
        raise UserError(
            f"hf:{model.name}: models of the hub need the package huggingface_hub; run: pip install 'regard[hub]'"
        ) from None
    with _errors(model), _quiet():
        if constants.HF_HUB_OFFLINE:
            return _from_cache(model, into)
        api = huggingface_hub.HfApi(endpoint=_endpoint())
        try:
            info = api.model_info(model.name, revision=model.revision or None, files_metadata=True)
        except (errors.HfHubHTTPError, errors.HFValidationError):
            raise
        except Exception:  # no network; of an HTTP library whose errors have no name of their own here
            with contextlib.suppress(Exception):
                found = _from_cache(model, into)
                note(f"hf:{model.name}: the hub cannot be reached; the copy in its cache is used")
                return found
            raise
        commit, licence = str(info.sha), _licence(info)
        if not re.fullmatch(r"[0-9a-f]{40,64}", commit):
            raise UserError(f"hf:{model.name}: the hub names no commit for it; try again later")
        files = _chosen(model, info.siblings or [])
        total = sum(file.size for file in files)
        note(
            f"downloading hf:{model.name} ({len(files)} files, {megabytes(total)}; licence: {licence or 'not stated'})"
        )
        _check_space(model, Path(constants.HF_HUB_CACHE), total)
        reports = "tqdm_class" in inspect.signature(huggingface_hub.hf_hub_download).parameters  # not in older versions
        done = 0
        for file in files:
            bar: dict[str, Any] = {"tqdm_class": _bar(show, done, total, file.name)} if reports else {}
            path = huggingface_hub.hf_hub_download(model.name, file.name, revision=commit, endpoint=_endpoint(), **bar)
            _verify(model, Path(path), file)
            place(Path(path), into / file.name)
            done += file.size
    return Fetched(into, commit, licence)


def megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"


def _from_cache(model: HubName, into: Path) -> Fetched:
    """The files that an earlier download left in the library's cache, without any request."""
    import huggingface_hub

    snapshot = Path(
        huggingface_hub.snapshot_download(model.name, revision=model.revision or None, local_files_only=True)
    )
    names = needed(path.name for path in snapshot.iterdir() if path.is_file())
    if not names:
        raise UserError(f"hf:{model.name}: the cache of the hub holds no complete copy; go online and try again")
    for name in names:
        blob = (snapshot / name).resolve()
        hashed = (
            {"sha256" if len(blob.name) == 64 else "git": blob.name} if re.fullmatch("[0-9a-f]+", blob.name) else {}
        )
        file = RepositoryFile(name, blob.stat().st_size, hashed.get("sha256", ""), hashed.get("git", ""))
        _verify(model, snapshot / name, file)
        place(snapshot / name, into / name)
    return Fetched(into, snapshot.name, "")


def _endpoint() -> str | None:
    return os.environ.get("HF_ENDPOINT") or None


def _chosen(model: HubName, siblings: list[Any]) -> list[RepositoryFile]:
    """The needed files of a repository, after checking what it says about their sizes."""
    if len(siblings) > MOST_FILES:
        raise UserError(f"hf:{model.name}: has {len(siblings):,} files; {MOST_FILES:,} are the most")
    by_name = {str(one.rfilename): one for one in siblings}
    chosen = []
    for name in needed(by_name):
        one = by_name[name]
        size = one.size
        if type(size) is not int or size < 0:
            raise UserError(f"hf:{model.name}: the hub does not say how large {name} is; try again later")
        limit = WEIGHTS_LIMIT if name.endswith((".safetensors", ".bin")) else SMALL_LIMIT
        if size > limit:
            raise UserError(f"hf:{model.name}: {name} has {megabytes(size)}; {megabytes(limit)} are the most")
        chosen.append(RepositoryFile(name, size, str(one.lfs.sha256) if one.lfs else "", str(one.blob_id or "")))
    if not chosen or "config.json" not in by_name:
        raise UserError(
            f"hf:{model.name}: holds no model that can be imported: it needs config.json and model.safetensors, "
            "pytorch_model.bin or CTranslate2's model.bin"
        )
    return chosen


def _verify(model: HubName, path: Path, file: RepositoryFile) -> None:
    """Compares a file with its size and hash; a wrong one is removed from the cache, so that it is taken again."""
    with path.open("rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        if file.sha256:
            right = hashlib.file_digest(stream, "sha256").hexdigest() == file.sha256
        elif file.git:
            digest = hashlib.sha1(f"blob {size}\0".encode(), usedforsecurity=False)
            while block := stream.read(1 << 20):
                digest.update(block)
            right = digest.hexdigest() == file.git
        else:
            right = True
    if size == file.size and right:
        return
    for wrong in (path.resolve(), path):
        with contextlib.suppress(OSError):
            wrong.unlink()
    raise UserError(
        f"hf:{model.name}: {file.name} is not what the hub says it is ({size:,} of {file.size:,} bytes, or another "
        "hash); it was removed; try again"
    )


def place(path: Path, target: Path) -> None:
    """The file under a new name, as a hard link where that is possible; the cache holds symbolic ones."""
    real = path.resolve()
    try:
        os.link(real, target)
    except OSError:
        shutil.copyfile(real, target)


def _check_space(model: HubName, cache: Path, size: int) -> None:
    place = next((folder for folder in (cache, *cache.parents) if folder.is_dir()), None)
    if place and (free := shutil.disk_usage(place).free) < size:
        raise UserError(
            f"hf:{model.name}: needs {megabytes(size)} in {cache}, where {megabytes(free)} are free; make room or set "
            "HF_HOME to a folder on another disk"
        )


def _licence(info: Any) -> str:
    """The licence on the model's card, in one line; a card may say anything."""
    card = info.card_data
    stated = card.to_dict().get("license") if card else None
    name = card.to_dict().get("license_name") if card and stated == "other" else None
    licence: Any = name or stated
    words = [str(word) for word in (licence if isinstance(licence, list) else [licence]) if word]
    return escape_control_characters(one_line(", ".join(words)))[:100]


def _bar(show: Show, before: int, total: int, name: str) -> type:
    """A stand-in for the library's progress bar that reports to `show`, once a download takes some time."""
    begun = time.monotonic()

    class Bar:
        def __init__(self, *given: Any, initial: int = 0, **more: Any) -> None:
            self.n = initial

        def update(self, count: float | None = 1) -> None:
            self.n += int(count or 0)
            if time.monotonic() - begun > SHOWN_AFTER:
                show(min(before + self.n, total), total, f"downloading {name}")

        def __enter__(self) -> Bar:
            return self

        def __exit__(self, *given: object) -> None:
            pass

        def __getattr__(self, name: str) -> Any:  # whatever else a bar can do
            if name.startswith("__"):
                raise AttributeError(name)
            return lambda *given, **more: None

    return Bar


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silences the library's warnings: what fails is said once, in one line."""
    from huggingface_hub.utils import logging

    before = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(before)


@contextlib.contextmanager
def _errors(model: HubName) -> Iterator[None]:
    """Turns the library's errors into one line each."""
    from huggingface_hub import constants, errors

    name = f"hf:{model.name}"
    try:
        yield
    except UserError:
        raise
    except errors.GatedRepoError:
        why = "its owner decides who may have it; ask on its page, then log in with: hf auth login"
        raise UserError(f"{name}: {why}") from None
    except errors.RevisionNotFoundError:
        raise UserError(f"{name}: the hub has no revision '{model.revision or 'main'}' of it; choose another") from None
    except errors.RepositoryNotFoundError:
        raise UserError(
            f"{name}: the hub has no such model, or it is private; check its name, or log in with: hf auth login"
        ) from None
    except (errors.OfflineModeIsEnabled, errors.LocalEntryNotFoundError) as error:
        if isinstance(error, errors.OfflineModeIsEnabled) or constants.HF_HUB_OFFLINE:
            raise UserError(f"{name}: not imported yet, and HF_HUB_OFFLINE forbids downloads; unset it once") from None
        raise UserError(f"{name}: the hub cannot be reached ({_why(error)}); try again later") from None
    except errors.HfHubHTTPError as error:
        status = getattr(error.response, "status_code", 0)
        if status in (401, 403):
            raise UserError(f"{name}: the hub refuses access ({status}); log in with: hf auth login") from None
        raise UserError(f"{name}: the hub answers {status}; try again later") from None
    except errors.HFValidationError:
        raise UserError(f"{name}: cannot be the name of a model of the hub; check its spelling") from None
    except KeyboardInterrupt:
        raise
    except Exception as error:  # of its HTTP library, whichever that is, or a full disk
        if isinstance(error, OSError) and error.filename:
            raise UserError(f"{name}: {error.filename}: {error.strerror}; make room or change HF_HOME") from None
        raise UserError(f"{name}: cannot be downloaded ({_why(error)}); try again: complete files are kept") from None


def _why(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    return escape_control_characters(one_line(str(error) or type(error).__name__))[:160]
