"""Documents over HTTP, by both contracts, with a pool that writes upper case."""

from __future__ import annotations

import asyncio
import io
import json
import tempfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from documents.samples import pdf
from fastapi import FastAPI
from serving.calling import Reply, call, calling
from serving.fakes import FakePool, fake_app

from regard.serving.http import documents
from regard.serving.workers.errors import ServerBusy

PAGE = b"<p>Bonjour <b>tout</b> le monde.</p>"
UPPER = b"<p>BONJOUR <b>TOUT</b> LE MONDE.</p>"
W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def form(content: bytes | None = PAGE, name: str = "page.html", **fields: str) -> dict[str, Any]:
    """A multipart form, as arguments of `call`."""
    parts = [
        f'--b\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n'.encode()
        for key, value in fields.items()
    ]
    if content is not None:
        head = f'--b\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
        parts.append(head.encode() + content + b"\r\n")
    return {"body": b"".join(parts) + b"--b--\r\n", "headers": {"Content-Type": "multipart/form-data; boundary=b"}}


def libre(app: Any, content: bytes | None = PAGE, name: str = "page.html", **fields: str) -> Reply:
    return call(app, "POST", "/translate_file", **form(content, name, **{"source": "fr", "target": "en", **fields}))


def refused(reply: Reply, says: str, status: int = 400) -> None:
    assert reply.status == status, reply.body
    assert says in "".join(reply.json().values())


def docx(*paragraphs: str) -> bytes:
    body = "".join(f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>" for text in paragraphs)
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as target:
        target.writestr("word/document.xml", f'<w:document xmlns:w="{W}"><w:body>{body}</w:body></w:document>')
    return made.getvalue()


@pytest.fixture
def app() -> FastAPI:
    return fake_app()  # type: ignore[no-any-return]


@pytest.fixture(autouse=True)
def no_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Nothing is written to disk, not even for a moment."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    yield


# LibreTranslate.


def test_a_document_is_translated_and_fetched_by_its_link(app: Any) -> None:
    link = libre(app).json()["translatedFileUrl"]
    assert link.startswith("http://127.0.0.1:5000/download_file/") and link.endswith(".page.html")
    for _ in range(2):
        reply = call(app, "GET", link.removeprefix("http://127.0.0.1:5000"))
        assert (reply.status, reply.body) == (200, UPPER)
    assert reply.headers["content-disposition"] == "attachment; filename*=UTF-8''page.html"
    assert reply.headers["content-type"] == "application/octet-stream"  # never shown as a page of this server
    assert reply.headers["x-content-type-options"] == "nosniff"


def test_an_office_document_larger_than_a_text_may_be() -> None:
    app = fake_app(text_limit=1000)
    given = docx(*(f"le mot numéro {n}" for n in range(500)))
    assert len(given) > 1000
    link = libre(app, given, "rapport.docx").json()["translatedFileUrl"]
    made = call(app, "GET", link.removeprefix("http://127.0.0.1:5000")).body
    with zipfile.ZipFile(io.BytesIO(made)) as archive:
        assert archive.read("word/document.xml").count("LE MOT NUMÉRO".encode()) == 500
    assert call(app, "POST", "/translate", **form(given)).status == 413, "elsewhere the limit of texts applies"


def test_what_is_no_document_is_refused_in_one_line(app: Any) -> None:
    refused(libre(app, None), "missing file parameter")
    refused(libre(app, name="page.exe"), "only .csv .docx")
    refused(libre(app, b"id,texte\n1,oui", "table.csv"), "in the field columns); there are: id, texte")
    refused(libre(app, b"id,texte\n1,oui", "table.csv", columns="nom"), "there is no column 'nom'")
    refused(libre(app, columns="nom"), "only tables")
    refused(libre(app, b"not a zip", "a.docx"), "a.docx: the file is not a zip archive")
    refused(libre(app, b"\xff\xfe\x00", "a.json"), "a.json")
    refused(libre(app, target="zz"), "zz is not supported")
    refused(libre(app, source=""), "missing source")
    two = form(PAGE, source="fr", target="en")
    two["body"] = form(PAGE)["body"].removesuffix(b"--b--\r\n") + two["body"]
    refused(call(app, "POST", "/translate_file", **two), "more than one file")
    refused(libre(fake_app(document_limit=20)), "characters; this server takes 20")
    refused(libre(fake_app(document_limit=0)), "Files translation are disabled", 403)
    refused(libre(fake_app(body_limit=100)), "larger than this server takes", 413)
    settings = call(fake_app(document_limit=0), "GET", "/frontend/settings").json()
    assert (settings["filesTranslation"], settings["supportedFilesFormat"]) == (False, [])


def test_the_columns_of_a_table_are_a_field(app: Any) -> None:
    given = b"id,texte,note\nun,oui,non\n"
    for columns, made in (("texte", b"un,OUI,non"), ("2, note", b"un,OUI,NON")):
        link = libre(app, given, "table.CSV", columns=columns).json()["translatedFileUrl"]
        reply = call(app, "GET", link.removeprefix("http://127.0.0.1:5000"))
        assert reply.body.splitlines()[1] == made and link.endswith(".table.csv")


def test_a_pdf_becomes_a_word_document(app: Any) -> None:
    given = pdf(["Le chat dort."])
    link = libre(app, given, "a.pdf").json()["translatedFileUrl"]
    assert link.endswith(".a.docx")
    made = call(app, "GET", link.removeprefix("http://127.0.0.1:5000")).body
    with zipfile.ZipFile(io.BytesIO(made)) as archive:
        assert "LE CHAT DORT." in archive.read("word/document.xml").decode()
    refused(libre(app, b"x", "a.pdf"), "a.pdf: the file is no PDF")

    async def run() -> None:
        handle = await uploaded(app, given, "a.pdf", source_lang="FR", output_format="docx")
        await waited(app, handle)
        reply = await asked(app, handle, "/result")
        assert reply.body == made and reply.headers["content-disposition"].endswith("''a.docx")

    asyncio.run(run())
    deepl = call(app, "POST", "/v2/document", **form(given, "a.pdf", target_lang="EN"))
    refused(deepl, "the translation of a pdf is a docx")


def test_names_lead_nowhere(app: Any) -> None:
    for name in (
        "../../etc/a.html",
        "C:\\\\x\\\\a.html",
        "a%2f..html",
        "<script>.html",
        "a\tb.html",
        "x" * 1000 + ".html",
    ):
        reply = libre(app, name=name)
        assert reply.status == 200, (name[:20], reply.body)
        link = reply.json()["translatedFileUrl"]
        path = link.removeprefix("http://127.0.0.1:5000/download_file/")
        assert "/" not in path and len(path) < 600
    for path in ("/download_file/", "/download_file/x.html", "/download_file/..%2f..%2fetc"):
        assert call(app, "GET", path).status == 404


def test_a_client_that_leaves_stops_the_work() -> None:
    pool = FakePool(seconds=30)
    app = fake_app(pool)
    sent = [{"type": "http.request", "body": form(source="fr", target="en")["body"], "more_body": False}]

    async def leave() -> None:
        async def receive() -> dict[str, Any]:
            if sent:
                return sent.pop()
            while not pool.waiting:
                await asyncio.sleep(0.01)
            return {"type": "http.disconnect"}

        await calling(app, "POST", "/translate_file", receive=receive, headers=form()["headers"])
        await asyncio.sleep(0.05)
        assert pool.cancelled == 1 and not pool.waiting

    asyncio.run(leave())


class BusyAtFirst(FakePool):
    async def translate(self, *given: Any, **more: Any) -> Any:
        self.calls.append(())
        if len(self.calls) == 1:
            raise ServerBusy(1)
        return await super().translate(*given, **more)


def test_a_busy_server_lets_a_document_wait() -> None:
    pool = BusyAtFirst()
    assert libre(fake_app(pool)).status == 200 and len(pool.calls) > 2


# DeepL.


async def uploaded(app: Any, content: bytes = PAGE, name: str = "page.html", key: str = "", **fields: str) -> Any:
    asked = form(content, name, **{"target_lang": "EN-US", **fields})
    asked["headers"] |= {"Authorization": f"DeepL-Auth-Key {key}"} if key else {}
    reply = await calling(app, "POST", "/v2/document", **asked)
    assert reply.status == 200, reply.body
    return reply.json()


async def asked(app: Any, handle: Any, what: str = "", key: str = "", **changed: str) -> Reply:
    headers = {"Authorization": f"DeepL-Auth-Key {key}"} if key else {}
    document_key = changed.get("document_key", handle["document_key"])
    return await calling(
        app, "POST", f"/v2/document/{handle['document_id']}{what}", headers=headers, document_key=document_key
    )


async def waited(app: Any, handle: Any, key: str = "") -> Any:
    end = time.monotonic() + 20
    while (found := (await asked(app, handle, key=key)).json()).get("status") in ("queued", "translating"):
        assert time.monotonic() < end
        await asyncio.sleep(0.01)
    return found


def test_a_document_is_uploaded_waited_for_and_given_out_once(app: Any) -> None:
    async def run() -> None:
        handle = await uploaded(app, source_lang="FR")
        assert (await waited(app, handle))["billed_characters"] == len(PAGE)
        assert (await asked(app, handle, "/result")).body == UPPER
        refused(await asked(app, handle, "/result"), "given out once", 404)
        refused(await asked(app, handle), "given out once", 404)
        usage = await calling(app, "GET", "/v2/usage")
        assert usage.json()["character_count"] == len(PAGE)

    asyncio.run(run())


def test_only_the_owner_of_the_key_is_told() -> None:
    guarded = fake_app(api_keys=("one", "two"))

    async def run() -> None:
        handle = await uploaded(guarded, key="one", source_lang="FR")
        await waited(guarded, handle, "one")
        for what in ("", "/result"):
            refused(await asked(guarded, handle, what, key="two"), "No such document", 404)
            refused(await asked(guarded, handle, what, key="one", document_key="0" * 64), "No such document", 404)
            refused(await asked(guarded, handle, what), "to get an API key", 403)
        link = f"/download_file/{handle['document_id']}.page.html"
        assert (await calling(guarded, "GET", link)).status == 404, "a link is only given out by /translate_file"
        assert (await asked(guarded, handle, "/result", key="one")).body == UPPER

    asyncio.run(run())


def test_the_status_of_a_slow_and_of_a_damaged_document() -> None:
    slow = fake_app(FakePool(seconds=30))

    async def run() -> None:
        handle = await uploaded(slow, source_lang="FR")
        for _ in range(200):
            found = (await asked(slow, handle)).json()
            if found["status"] == "translating":
                break
            await asyncio.sleep(0.01)
        assert found["seconds_remaining"] >= 1
        reply = await asked(slow, handle, "/result")
        refused(reply, "not ready", 503)
        assert int(reply.headers["retry-after"]) >= 1
        damaged = await uploaded(slow, b"PK", "a.docx")
        found = await waited(slow, damaged)
        assert found["status"] == "error" and "not a zip archive" in found["error_message"]
        refused(await asked(slow, damaged, "/result"), "not a zip archive")

    asyncio.run(run())


def test_deepl_refuses_what_it_cannot_translate(app: Any) -> None:
    def refuses(says: str, **given: Any) -> None:
        refused(call(app, "POST", "/v2/document", **form(**given)), says)

    refuses("'file' not specified", content=None, target_lang="EN")
    refuses("'target_lang' not specified")
    refuses("zz is not supported", target_lang="ZZ")
    refuses("keeps its format", target_lang="EN", output_format="pdf")
    refuses("only .docx", target_lang="EN", filename="a.exe")
    refuses("Documents of this kind", target_lang="EN", filename="a.csv")
    refused(call(app, "POST", "/v2/document/abc", document_key=3), "'document_key' not specified")


def test_memory_is_bounded_and_old_translations_are_forgotten(monkeypatch: pytest.MonkeyPatch, app: Any) -> None:
    monkeypatch.setattr(documents, "MAX_DOCUMENTS", 2)

    async def run() -> None:
        first, second = await uploaded(app, source_lang="FR"), await uploaded(app, source_lang="FR")
        await waited(app, second)
        busy = await calling(app, "POST", "/v2/document", **form(target_lang="EN"))
        assert (busy.status, busy.headers["retry-after"]) == (503, "30")
        monkeypatch.setattr(documents, "KEPT_SECONDS", -1.0)
        refused(await asked(app, second), "No such document", 404)
        await uploaded(app, source_lang="FR")
        monkeypatch.setattr(documents, "MAX_MEMORY", 10)
        assert (await calling(app, "POST", "/v2/document", **form(target_lang="EN"))).status == 503
        assert first["document_id"] != second["document_id"]

    asyncio.run(run())


def test_a_bug_is_told_without_its_details(app: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*given: object) -> None:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(documents, "read_document", fails)
    reply = libre(app)
    assert reply.status == 500 and "secret" not in json.dumps(reply.json())
