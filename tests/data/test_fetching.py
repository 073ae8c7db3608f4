"""Downloads of data sets (S19): servers that misbehave, folders that were changed, and the register that ships."""

from __future__ import annotations

import contextlib
import errno
import gzip
import hashlib
import io
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from regard.data.datasets import DataSet, File, check_address, data_set, data_sets
from regard.data.fetching import get, partial_file, present, transfer
from regard.data.fetching.http_opener import Redirects
from regard.errors import UserError

ROOT = Path(__file__).parents[2]
TEXT = random.Random(1).randbytes(150_000).hex().encode()  # 300,000 bytes, more than one chunk
GZ = gzip.compress(TEXT, 6, mtime=0)
OTHER_GZ = gzip.compress(TEXT, 1, mtime=1)
assert GZ != OTHER_GZ


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def plain(url: str = "", content: bytes = TEXT, name: str = "a.txt") -> File:
    return File(name, len(content), sha(content), url=url)


def packed(url: str = "") -> File:
    return File("a.txt.gz", len(GZ), sha(GZ), len(TEXT), sha(TEXT), url)


def tiny(*files: File) -> DataSet:
    return DataSet("tiny", "Tiny", "testing", "none", "nowhere", files, "made up")


class Server:
    """Serves one content on this machine. `faults` are what it does instead, one after the other."""

    def __init__(self) -> None:
        self.content = TEXT
        self.faults: list[Callable[[BaseHTTPRequestHandler], None]] = []
        self.asked: list[tuple[str, str | None]] = []
        self.sent = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append((self.path, self.headers.get("Range")))
                answer = outer.faults.pop(0) if outer.faults else outer.whole
                with contextlib.suppress(OSError):  # the client had enough
                    answer(self)
                self.close_connection = True

            def log_message(self, *words: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.base = f"http://127.0.0.1:{self.http.server_port}"
        self.url = f"{self.base}/a.txt"
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()

    def whole(self, request: BaseHTTPRequestHandler) -> None:
        begin = int((request.headers.get("Range") or "bytes=0-").removeprefix("bytes=").rstrip("-"))
        if begin >= len(self.content):
            return self.status(416)(request)
        request.send_response(206 if begin else 200)
        if begin:
            request.send_header("Content-Range", f"bytes {begin}-{len(self.content) - 1}/{len(self.content)}")
        self.body(request, self.content[begin:])

    def body(self, request: BaseHTTPRequestHandler, content: bytes, said: int | None = None) -> None:
        request.send_header("Content-Length", str(len(content) if said is None else said))
        request.end_headers()
        request.wfile.write(content)

    def cut(self, count: int) -> Callable[[BaseHTTPRequestHandler], None]:
        def answer(request: BaseHTTPRequestHandler) -> None:
            request.send_response(200)
            self.body(request, self.content[:count], len(self.content))

        return answer

    def ignore_range(self, request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        self.body(request, self.content)

    def other_piece(self, request: BaseHTTPRequestHandler) -> None:
        request.send_response(206)
        request.send_header("Content-Range", f"bytes 7-{len(self.content) - 1}/{len(self.content)}")
        self.body(request, self.content[7:])

    def endless(self, request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Length", "10")  # a lie that must not matter, and the next line takes it back
        request.send_header("Transfer-Encoding", "chunked")
        request.end_headers()
        while self.sent < 500_000_000:
            request.wfile.write(b"10000\r\n" + bytes(0x10000) + b"\r\n")
            self.sent += 0x10000

    def cut_in_chunks(self, request: BaseHTTPRequestHandler) -> None:
        request.protocol_version = "HTTP/1.1"
        request.send_response(200)
        request.send_header("Transfer-Encoding", "chunked")
        request.end_headers()
        request.wfile.write(b"10000\r\n" + self.content[:0x8000])

    def status(self, code: int, **headers: str) -> Callable[[BaseHTTPRequestHandler], None]:
        def answer(request: BaseHTTPRequestHandler) -> None:
            request.send_response(code)
            for name, value in headers.items():
                request.send_header(name, value)
            self.body(request, b"")

        return answer

    def silent(self, request: BaseHTTPRequestHandler) -> None:
        time.sleep(1.0)

    def drip(self, request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Length", str(len(self.content)))
        request.end_headers()
        for begin in range(0, len(self.content), 10_000):
            request.wfile.write(self.content[begin : begin + 10_000])
            time.sleep(0.2)

    def trickle(self, headers: bool = False, first: int = 0) -> Callable[[BaseHTTPRequestHandler], None]:
        """A byte now and then, for ever: of the body, after `first` bytes, or of a header."""

        def answer(request: BaseHTTPRequestHandler) -> None:
            begin = int((request.headers.get("Range") or "bytes=0-").removeprefix("bytes=").rstrip("-"))
            content = self.content[begin:]
            request.wfile.write(b"HTTP/1.1 206 Partial\r\n")
            request.wfile.write(b"Content-Range: bytes %d-%d/*\r\n" % (begin, len(self.content) - 1))
            request.wfile.write(b"Content-Length: %d\r\n" % len(content) + (b"X-Long: " if headers else b"\r\n"))
            request.wfile.write(b"" if headers else content[:first])
            for number in range(500):
                request.wfile.write(b"a" if headers else content[first + number : first + number + 1])
                time.sleep(0.02)

        return answer


@pytest.fixture
def server():
    made = Server()
    yield made
    made.http.shutdown()
    made.http.server_close()


def fetch(files: DataSet, root: Path, source: str | None = None, timeout: float = 5.0, tries: int = 3, **options):
    return get(files, root, source, timeout=timeout, pauses=(0.01,) * tries, **options)


def refused(files: DataSet, root: Path, source: str | None = None, **options) -> str:
    with pytest.raises(UserError) as error:
        fetch(files, root, source, **options)
    message = str(error.value)
    assert "\n" not in message
    return message


# From a server


def test_a_file_arrives_whole_and_is_not_fetched_again(server, tmp_path):
    shown = []
    wanted = tiny(plain(server.url))
    (got,) = fetch(wanted, tmp_path, show=lambda *words: shown.append(words))
    assert got.how == "downloaded" and (tmp_path / "tiny/a.txt").read_bytes() == TEXT
    assert shown[-1] == (len(TEXT), len(TEXT), "a.txt") and len(shown) > 2
    assert [path.name for path in (tmp_path / "tiny").iterdir()] == ["a.txt"]
    (got,) = fetch(wanted, tmp_path)
    assert got.how == "there" and server.asked == [("/a.txt", None)]


def test_a_cut_line_goes_on_where_it_stopped(server, tmp_path):
    server.faults = [server.cut(100_000), server.status(503)]
    fetch(tiny(plain(server.url)), tmp_path)
    assert [asked for _, asked in server.asked] == [None, "bytes=100000-", "bytes=100000-"]
    assert (tmp_path / "tiny/a.txt").read_bytes() == TEXT


@pytest.mark.parametrize(("headers", "first"), [(False, 0), (False, 70_000), (True, 0)])
def test_a_server_that_drips_is_given_up(headers, first, server, tmp_path, monkeypatch):
    """Every byte comes well within the timeout, so that no timeout ends it."""
    monkeypatch.setattr(transfer, "MIN_BYTES_PER_SECOND", 10_000_000)
    server.faults = [server.trickle(headers, first) for _ in range(9)]
    began = time.monotonic()
    message = refused(tiny(plain(server.url)), tmp_path, timeout=0.3, tries=2)
    assert "sent less than 10,000,000 bytes a second for 0.6 s" in message and len(server.asked) == 3
    assert time.monotonic() - began < 30
    if not headers:
        assert "bytes are kept for the next try" in message
        server.faults = []
        monkeypatch.undo()
        fetch(tiny(plain(server.url)), tmp_path)
        assert (tmp_path / "tiny/a.txt").read_bytes() == TEXT and server.asked[-1][1] > "bytes=0-"


def test_a_cut_in_chunks_is_noticed(server, tmp_path):
    server.faults = [server.cut_in_chunks]
    fetch(tiny(plain(server.url)), tmp_path)
    assert (tmp_path / "tiny/a.txt").read_bytes() == TEXT and len(server.asked) == 2


def test_a_line_that_brings_something_is_worth_waiting_for(server, tmp_path):
    def cut_after(count: int) -> Callable[[BaseHTTPRequestHandler], None]:
        def answer(request: BaseHTTPRequestHandler) -> None:
            begin = int((request.headers.get("Range") or "bytes=0-").removeprefix("bytes=").rstrip("-"))
            request.send_response(206)
            request.send_header("Content-Range", f"bytes {begin}-{len(TEXT) - 1}/{len(TEXT)}")
            server.body(request, TEXT[begin : begin + count], len(TEXT) - begin)

        return answer

    server.faults = [cut_after(70_000)] * 4
    fetch(tiny(plain(server.url)), tmp_path, tries=1)
    assert len(server.asked) == 5 and (tmp_path / "tiny/a.txt").read_bytes() == TEXT
    server.asked, server.faults = [], [cut_after(10)] * 20
    assert "ended after 20 of" in refused(tiny(plain(server.url, name="b.txt")), tmp_path, tries=1)


@pytest.mark.parametrize("fault", ["ignore_range", "other_piece"])
def test_a_server_that_knows_no_ranges_starts_again(server, tmp_path, fault):
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny/.a.txt.part").write_bytes(TEXT[:1000])
    server.faults = [getattr(server, fault)]
    fetch(tiny(plain(server.url)), tmp_path)
    assert server.asked[0][1] == "bytes=1000-" and (tmp_path / "tiny/a.txt").read_bytes() == TEXT


def test_a_beginning_of_another_file_is_thrown_away(server, tmp_path):
    part = tmp_path / "tiny/.a.txt.part"
    part.parent.mkdir()
    for wrong in (b"?" * 1000, b"?" * len(TEXT), b"?" * (len(TEXT) + 1)):  # half, all (416), and more than can be
        part.write_bytes(wrong)
        (got,) = fetch(tiny(plain(server.url)), tmp_path)
        assert got.how == "downloaded" and (tmp_path / "tiny/a.txt").read_bytes() == TEXT
        (tmp_path / "tiny/a.txt").unlink()


def test_a_wrong_beginning_is_forgiven_only_once(server, tmp_path):
    server.content = b"?" * len(TEXT)
    server.faults = [server.cut(100_000), server.whole] * 50
    assert "sha256" in refused(tiny(plain(server.url)), tmp_path) and len(server.asked) == 4


def test_what_was_all_there_needs_no_server(tmp_path):
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny/.a.txt.part").write_bytes(TEXT)
    fetch(tiny(plain(f"http://127.0.0.1:{free_port()}/a.txt")), tmp_path)
    assert [path.name for path in (tmp_path / "tiny").iterdir()] == ["a.txt"]


def test_a_wrong_checksum_is_refused_and_the_old_file_stays(server, tmp_path):
    server.content = b"?" + TEXT[1:]
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny/a.txt").write_bytes(b"old")
    message = refused(tiny(plain(server.url)), tmp_path)
    assert server.url in message and sha(server.content) in message and sha(TEXT) in message
    assert {path.name: path.read_bytes() for path in (tmp_path / "tiny").iterdir()} == {"a.txt": b"old"}
    assert len(server.asked) == 1


def test_no_more_is_read_than_a_file_can_have(server, tmp_path):
    server.faults = [server.endless]
    message = refused(tiny(plain(server.url)), tmp_path)
    assert "more than the 300,000 bytes that a.txt can have" in message
    assert server.sent < 20_000_000 and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "place", ["http://example.org/a.txt", "file:///etc/passwd", "ftp://example.org/a", "//example.org/a", "http://[::1"]
)
def test_a_redirect_elsewhere_is_refused(server, tmp_path, place):
    server.faults = [server.status(302, Location=place)]
    message = refused(tiny(plain(server.url)), tmp_path)
    assert "only https is fetched" in message or "leads to none" in message or "answers 302" in message
    assert len(server.asked) == 1 and list(tmp_path.iterdir()) == []


def test_a_redirect_never_leaves_https():
    asked = urllib.request.Request("https://example.org/a.txt")
    follow = Redirects().redirect_request
    assert follow(asked, None, 302, "", {}, "https://example.com/b.txt").full_url == "https://example.com/b.txt"
    for place in ("http://example.org/a.txt", "http://127.0.0.1/a.txt"):
        with pytest.raises(UserError, match=f"https://example.org/a.txt leads to {place}: only https"):
            follow(asked, None, 302, "", {}, place)


def test_a_redirect_on_this_machine_is_followed_but_not_for_ever(server, tmp_path):
    server.faults = [server.status(302, Location="/b.txt")]
    fetch(tiny(plain(server.url)), tmp_path)
    assert [path for path, _ in server.asked] == ["/a.txt", "/b.txt"]
    server.faults = [server.status(302, Location="/a.txt")] * 50
    assert "answers 302" in refused(tiny(plain(server.url, name="c.txt")), tmp_path)


@pytest.mark.parametrize(
    ("url", "seen_from", "good"),
    [
        ("https://example.org/x", "", True),
        ("https://example.org/x", "https://example.com/y", True),
        ("https://example.org/x", "http://localhost/y", True),
        ("http://localhost:80/x", "", True),
        ("http://127.9.9.9/x", "http://[::1]/", True),
        ("http://localhost/x", "https://example.com/y", False),
        ("http://example.org/x", "", False),
        ("http://localhost.example.org/x", "", False),
        ("http://127.0.0.1@example.org/x", "", False),
        ("http://10.0.0.1/x", "", False),
        ("http://2130706433/x", "", False),
        ("https:///x", "", False),
        ("ftp://example.org/x", "", False),
        ("file:///x", "", False),
        ("data:,x", "", False),
        ("x", "", False),
    ],
)
def test_which_addresses_are_fetched(url, seen_from, good):
    if good:
        check_address(url, seen_from)
    else:
        with pytest.raises(UserError, match="only https"):
            check_address(url, seen_from)


def test_what_is_not_there_is_asked_for_once(server, tmp_path):
    server.faults = [server.status(404)] * 5
    message = refused(tiny(plain(server.url)), tmp_path)
    assert "answers 404 Not Found; put a.txt (of nowhere) into" in message and len(server.asked) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_silent_server_is_left_after_a_while(server, tmp_path):
    server.faults = [server.silent] * 5
    begin = time.monotonic()
    message = refused(tiny(plain(server.url)), tmp_path, timeout=0.1, tries=2)
    assert "timed out" in message and "try again later" in message
    assert len(server.asked) == 3 and time.monotonic() - begin < 3


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def test_offline_it_says_what_to_put_where(tmp_path):
    urls = [f"http://127.0.0.1:{free_port()}/{name}" for name in ("a.txt", "b.txt")]
    begin = time.monotonic()
    with pytest.raises(UserError) as error:  # with the pauses of every day: none of them is waited for
        get(tiny(plain(urls[0]), plain(urls[1], name="b.txt")), tmp_path / "data")
    assert time.monotonic() - begin < 0.9
    assert (
        f"cannot be reached (Connection refused); put a.txt, b.txt (of nowhere) into {tmp_path}/data/tiny, or give --mirror"
        in str(error.value)
    )
    assert list(tmp_path.iterdir()) == []


def test_without_an_address_it_says_what_to_put_where(server, tmp_path):
    message = refused(tiny(plain(server.url), plain(name="b.txt")), tmp_path)
    assert "no address has these files as they are needed (made up); put b.txt (of nowhere) into" in message
    assert server.asked == []


@pytest.mark.parametrize("base", ["", "/", "/tiny", "/tiny/"])
def test_a_mirror(server, tmp_path, base):
    (got,) = fetch(tiny(plain()), tmp_path, f"{server.base}{base}")
    assert got.how == "downloaded" and server.asked == [("/tiny/a.txt", None)]


def test_a_mirror_must_be_safe(tmp_path):
    assert "only https" in refused(tiny(plain()), tmp_path, "http://example.org/base")
    assert "only https" in refused(tiny(plain()), tmp_path, "ftp://example.org/base")
    assert "not an address" in refused(tiny(plain()), tmp_path, "https://exa mple.org/base")


def test_killed_and_resumed(server, tmp_path):
    server.faults = [server.drip]
    code = "import sys; from pathlib import Path; from regard.data.fetching import get; from regard.data.datasets import *\n"
    code += f"get(DataSet('tiny', '', '', '', '', (File('a.txt', {len(TEXT)}, {sha(TEXT)!r}, url={server.url!r}),)), Path(sys.argv[1]))"
    working = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], env={**os.environ, "PYTHONPATH": str(ROOT)})
    part = tmp_path / "tiny/.a.txt.part"
    wait_for(lambda: part.exists() and part.stat().st_size >= 20_000)
    working.send_signal(signal.SIGKILL)
    working.wait()
    size = part.stat().st_size
    assert 20_000 <= size < len(TEXT) and not (tmp_path / "tiny/a.txt").exists()
    fetch(tiny(plain(server.url)), tmp_path)
    assert server.asked[1:] == [("/a.txt", f"bytes={size}-")] and (tmp_path / "tiny/a.txt").read_bytes() == TEXT


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


# Onto the disk


def test_a_full_disk_is_one_line_and_the_old_file_stays(server, tmp_path, monkeypatch):
    class Full(io.FileIO):
        def write(self, chunk) -> int:
            if self.tell() >= 100_000:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return super().write(chunk[: 100_000 - self.tell()])

    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny/a.txt").write_bytes(b"old")
    with monkeypatch.context() as full:
        full.setattr(partial_file.io, "FileIO", Full)
        message = refused(tiny(plain(server.url)), tmp_path)
    assert f"cannot write {tmp_path}/tiny/a.txt: No space left on device" in message
    assert (tmp_path / "tiny/a.txt").read_bytes() == b"old"
    fetch(tiny(plain(server.url)), tmp_path)
    assert server.asked[-1] == ("/a.txt", "bytes=100000-") and (tmp_path / "tiny/a.txt").read_bytes() == TEXT


def test_links_are_read_but_never_written_through(server, tmp_path):
    outside = tmp_path / "outside"
    outside.write_bytes(b"mine")
    folder = tmp_path / "data/tiny"
    folder.mkdir(parents=True)
    (folder / "a.txt").symlink_to(outside)
    (folder / ".a.txt.part").symlink_to(outside)
    fetch(tiny(plain(server.url)), tmp_path / "data")
    assert outside.read_bytes() == b"mine" and not (folder / "a.txt").is_symlink()
    assert (folder / "a.txt").read_bytes() == TEXT

    (folder / "a.txt").rename(outside)
    (folder / "a.txt").symlink_to(outside)
    (got,) = fetch(tiny(plain(server.url)), tmp_path / "data")
    assert got.how == "there"

    (tmp_path / "linked").mkdir()
    (tmp_path / "linked/tiny").symlink_to(folder)
    outside.write_bytes(b"mine")
    assert "links are not written through" in refused(tiny(plain(server.url)), tmp_path / "linked")
    assert outside.read_bytes() == b"mine"


def test_one_process_at_a_time(server, tmp_path):
    fcntl = pytest.importorskip("fcntl")
    part = tmp_path / "tiny/.a.txt.part"
    part.parent.mkdir()
    with part.open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert "another process is fetching this file" in refused(tiny(plain(server.url)), tmp_path)
    fetch(tiny(plain(server.url)), tmp_path)


def test_where_nothing_can_be_written(server, tmp_path):
    (tmp_path / "file").touch()
    assert "cannot make" in refused(tiny(plain(server.url)), tmp_path / "file")
    (tmp_path / "tiny/a.txt").mkdir(parents=True)
    assert "cannot write" in refused(tiny(plain(server.url)), tmp_path)


# From a folder


@pytest.fixture
def folder(tmp_path) -> Path:
    (tmp_path / "from/tiny").mkdir(parents=True)
    (tmp_path / "from/tiny/a.txt").write_bytes(TEXT)
    return tmp_path / "from"


@pytest.mark.parametrize("inner", ["", "tiny"])
def test_a_folder_or_its_parent(folder, tmp_path, inner):
    (got,) = fetch(tiny(plain()), tmp_path / "data", str(folder / inner))
    assert got.how == "copied" and (tmp_path / "data/tiny/a.txt").read_bytes() == TEXT


def test_a_changed_byte_is_refused(folder, tmp_path):
    changed = TEXT[:-1] + b"?"
    (folder / "tiny/a.txt").write_bytes(changed)
    message = refused(tiny(plain()), tmp_path / "data", str(folder))
    assert f"{folder}/tiny/a.txt" in message and sha(changed) in message and sha(TEXT) in message
    (folder / "tiny/a.txt").write_bytes(TEXT + b"?")
    assert "more than the 300,000 bytes" in refused(tiny(plain()), tmp_path / "data", str(folder))
    assert not (tmp_path / "data").exists()


def test_what_a_folder_lacks_is_named_before_anything_is_copied(folder, tmp_path):
    files = tiny(plain(), plain(name="b.txt"), plain(name="c.txt"))
    assert "b.txt, c.txt not found here" in refused(files, tmp_path / "data", str(folder))
    assert "no such folder" in refused(files, tmp_path / "data", str(folder / "no"))
    assert not (tmp_path / "data").exists()


# Packed files


@pytest.mark.parametrize(
    ("content", "how"),
    [(GZ, "downloaded"), (OTHER_GZ, "downloaded"), (TEXT, "downloaded and packed here")],
    ids=["same", "repacked", "plain"],
)
def test_a_packed_file_may_come_in_three_forms(server, tmp_path, content, how):
    server.content = content
    server.faults = [server.cut(1000)]
    (got,) = fetch(tiny(packed(server.url)), tmp_path)
    there = tmp_path / "tiny/a.txt.gz"
    assert got.how == how and gzip.decompress(there.read_bytes()) == TEXT
    assert len(server.asked) == 2 and [path.name for path in there.parent.iterdir()] == ["a.txt.gz"]
    (got,) = fetch(tiny(packed(server.url)), tmp_path)
    assert got.how == "there"
    assert present(tiny(packed()), tmp_path) == [packed()]


def test_packing_gives_the_same_bytes_every_time(server, tmp_path):
    server.content = TEXT
    for root in ("one", "two"):
        fetch(tiny(packed(server.url)), tmp_path / root)
    one, two = ((tmp_path / root / "tiny/a.txt.gz").read_bytes() for root in ("one", "two"))
    assert one == two and one[4:8] == bytes(4), "no time in it"


@pytest.mark.parametrize("name", ["a.txt.gz", "a.txt", "raw"])
def test_a_folder_may_have_it_under_any_of_its_names(tmp_path, name):
    (tmp_path / "from").mkdir()
    (tmp_path / "from" / name).write_bytes(OTHER_GZ if name == "a.txt.gz" else TEXT)
    (got,) = fetch(tiny(packed("https://example.org/raw")), tmp_path, str(tmp_path / "from"))
    assert got.how == ("copied" if name == "a.txt.gz" else "copied and packed here")
    assert gzip.decompress((tmp_path / "tiny/a.txt.gz").read_bytes()) == TEXT


@pytest.mark.parametrize(
    "content",
    [gzip.compress(bytes(200_000_000), 9), gzip.compress(TEXT + b"?"), gzip.compress(TEXT[:-1]), GZ[:-1], GZ + b"?", b"\x1f\x8b?", TEXT[:-1] + b"?"],
    ids=["bomb", "longer", "shorter", "cut", "trailing", "broken", "plain"],
)  # fmt: skip
def test_another_content_is_refused(server, tmp_path, content):
    server.content = content
    message = refused(tiny(packed(server.url)), tmp_path)
    assert sha(content) in message and (sha(TEXT) if content.startswith(TEXT[:9]) else sha(GZ)) in message
    assert list(tmp_path.iterdir()) == []


def test_no_more_is_unpacked_than_a_file_holds(server, tmp_path, monkeypatch):
    unpacked = 0
    read = gzip.GzipFile.read

    def counting(self, size=-1):
        nonlocal unpacked
        content = read(self, size)
        unpacked += len(content)
        return content

    monkeypatch.setattr(gzip.GzipFile, "read", counting)
    server.content = gzip.compress(bytes(200_000_000), 9)
    refused(tiny(packed(server.url)), tmp_path)
    assert len(TEXT) < unpacked <= len(TEXT) + 1


def test_what_is_there_at_a_glance(tmp_path):
    files = tiny(plain(), packed())
    assert present(files, tmp_path) == []
    (tmp_path / "tiny").mkdir()
    for content, seen in (
        (b"", False),
        (b"x", False),
        (OTHER_GZ, True),
        (GZ, True),
        (GZ[:-4] + bytes(4), True),
        (OTHER_GZ[:-1], False),
    ):
        (tmp_path / "tiny/a.txt.gz").write_bytes(content)
        assert present(files, tmp_path) == ([packed()] if seen else [])


# The register


@pytest.mark.parametrize("name", ["../a", "a/b", "/a", ".a", "..", "", "a\\b", "a\n", "C:a", "ä", "a" * 200])
def test_only_plain_names(name, tmp_path):
    with pytest.raises(UserError, match="plain"):
        File(name, 1, sha(b""))
    with pytest.raises(UserError, match="plain"):
        DataSet(name, "", "", "", "", ())
    (tmp_path / "evil.toml").write_text(
        f'title = ""\nuse = ""\nlicence = ""\norigin = ""\n[[files]]\nname = {name!r}\nsize = 1\nsha256 = "{sha(b"")}"\n'
    )
    with pytest.raises(UserError):
        data_sets(tmp_path)


@pytest.mark.parametrize(
    "wrong",
    [
        {"size": 0}, {"size": -1}, {"size": 1 << 40}, {"sha256": "0"}, {"sha256": "G" * 64}, {"url": "http://example.org/a"},
        {"content_size": 5}, {"content_sha256": "0" * 64}, {"content_size": 5, "content_sha256": "0" * 64},
    ],
)  # fmt: skip
def test_what_cannot_be_true_of_a_file(wrong):
    with pytest.raises(UserError):
        File(**{"name": "a.txt", "size": 1, "sha256": "0" * 64} | wrong)


@pytest.mark.parametrize("text", ["", "x", "title = 1", 'files = [{nam = "x"}]'])
def test_a_broken_entry_is_one_line(tmp_path, text):
    (tmp_path / "a.toml").write_text(text)
    with pytest.raises(UserError, match="does not describe a data set"):
        data_sets(tmp_path)


SHIPPED = data_sets()


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_entry_is_well_formed(name):
    one = SHIPPED[name]
    for text in (one.title, one.use, one.licence, one.origin):
        assert text and text == text.strip() and "\n" not in text and text.isprintable()
    assert one.files and len({file.name for file in one.files}) == len(one.files)
    assert 1000 < one.size < 100_000_000
    for file in one.files:
        assert bool(file.content_size) == (file.packed and not file.name.endswith(".tar.gz"))
        assert not file.content_size or file.size < file.content_size < 20 * file.size
        assert not file.url or file.url.startswith("https://raw.githubusercontent.com/")
    assert all(file.url for file in one.files) or one.changed


def test_the_register_knows_what_the_recipes_read():
    from regard.cli.recipes import entries

    read = {file for entry in entries().values() for file in entry.files}
    assert "multi30k/train.en.gz" in read
    assert read <= {f"{one.name}/{file.name}" for one in SHIPPED.values() for file in one.files}


def test_a_name_that_is_nearly_right():
    assert data_set("multi30k").name == "multi30k"
    with pytest.raises(UserError, match="no data set 'multi3k'; did you mean 'multi30k'"):
        data_set("multi3k")
