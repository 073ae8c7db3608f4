"""A worker without models, for tests of the engine: it speaks the worker's language, and texts tell it what to do.

A text is answered in upper case. `wait 0.5` takes half a second unless it is taken back, `crash` ends the process,
`memory` and `refuse` fail, `noted` answers what was taken back so far, `pid` who answers.
"""

import json
import os
import queue
import sys
import threading
import time

jobs: queue.Queue = queue.Queue()
cancelled: list[tuple[int, int]] = []


def read() -> None:
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if "cancel" in message:
            cancelled.extend((message["cancel"], item) for item in message["items"])
        else:
            jobs.put(message)
    os._exit(0)


def say(**message: object) -> None:
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
    if text == "noted":
        text = json.dumps(cancelled)
    if text == "pid":
        text = str(os.getpid())
    tree = {"text": text.upper(), "score": 0.0, "log_probability": 0.0, "tokens": [], "finished": True}
    return {**tree, "alignment": None, "attention": None, "alternatives": []}


first = json.loads(sys.stdin.buffer.readline())
if "refused" in first["models"]:
    say(refused="this model cannot be loaded")
    sys.exit()
threading.Thread(target=read, daemon=True).start()
say(ready=os.getpid())
while True:
    job = jobs.get()
    if job["do"] == "translate":
        if "refuse" in job["texts"]:
            say(id=job["id"], kind="refused", error="no such thing")
            continue
        time.sleep(0.002 * len(job["texts"]))
        say(id=job["id"], answer=[answer(job, item, text) for item, text in enumerate(job["texts"])])
    elif job["do"] == "ask":
        say(id=job["id"], answer={"asked": job["request"], "task": job["task"]})
    else:
        for number in range(job["request"]["parts"]):
            if (job["id"], 0) in cancelled:
                break
            say(id=job["id"], part={"number": number})
            time.sleep(0.01)
        say(id=job["id"], answer=None)
