"""A worker without models for tests of the pool. It speaks the worker's protocol; texts tell it what to do.

A text is answered in upper case. `wait 0.5` takes half a second unless it is cancelled, `crash` ends the process,
`memory` and `refuse` fail, `noted` returns the cancellations so far, `pid` the process id. `deaf` ignores cancellation,
`huge` answers 100 MB, `matrix 3 4` returns an attention matrix of 3 x 4 in every alternative. A long text is split at
` / `. A model called `hangs` is never loaded; with one called `dies` the process exits as soon as it is ready.
"""

import json
import os
import queue
import sys
import threading
import time

jobs: queue.Queue = queue.Queue()
cancelled: list[tuple[int, int]] = []
lock = threading.Lock()


def read() -> None:
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if "ping" in message:
            say(pong=True)
        elif "cancel" in message:
            cancelled.extend((message["cancel"], item) for item in message["items"])
        else:
            jobs.put(message)
    os._exit(0)


def say(**message: object) -> None:
    with lock:
        sys.stdout.buffer.write(json.dumps(message).encode() + b"\n")
        sys.stdout.buffer.flush()


def answer(job: dict, item: int, text: str) -> dict:
    if text == "crash":
        os._exit(9)
    if text == "memory":
        return {"kind": "memory", "error": "not enough memory"}
    if text.startswith("wait "):
        until = time.monotonic() + float(text[5:])
        while time.monotonic() < until and (job["id"], item) not in cancelled:
            time.sleep(0.005)
    if text == "deaf":
        time.sleep(1000)
    if text == "huge":
        text = "x" * 100_000_000
    if text == "noted":
        text = json.dumps(cancelled)
    if text == "pid":
        text = str(os.getpid())
    tree = {"text": text.upper(), "score": 0.0, "log_probability": 0.0, "tokens": [], "finished": True}
    tree |= {"alignment": None, "attention": None, "alternatives": []}
    if text.startswith("matrix "):
        rows, columns = map(int, text.split()[1:3])
        tree["attention"] = [[0.5] * columns] * rows
        tree["alternatives"] = [tree.copy() for _ in range(job["search"]["n_best"][item] - 1)]
    return tree


first = json.loads(sys.stdin.buffer.readline())
if "refused" in first["models"]:
    say(refused="this model cannot be loaded")
    sys.exit()
for name in first["models"]:
    say(loading=name)
    if name == "hangs":
        time.sleep(1000)
threading.Thread(target=read, daemon=True).start()
say(ready=os.getpid())
if "dies" in first["models"] and os.path.exists(first["models"]["dies"]):
    os._exit(3)
while True:
    job = jobs.get()
    if job["action"] == "split":
        say(id=job["id"], answer=[text.split(" / ") for text in job["texts"]])
    elif job["action"] == "translate":
        if "refuse" in job["texts"]:
            say(id=job["id"], kind="refused", error="no such thing")
            continue
        time.sleep(0.002 * len(job["texts"]))
        say(id=job["id"], answer=[answer(job, item, text) for item, text in enumerate(job["texts"])])
    elif job["action"] == "run":
        say(id=job["id"], answer={"asked": job["request"], "task": job["task"]})
    else:
        for number in range(job["request"]["parts"]):
            if (job["id"], 0) in cancelled:
                break
            say(id=job["id"], part={"number": number, "padding": "x" * job["request"].get("size", 0)})
            time.sleep(0.01)
        say(id=job["id"], answer=None)
