"""Runs one command and writes down what it took: `python _launch.py REPORT COMMAND ...`.

A small process of its own, because Linux counts the memory of the process that starts a command as the command's.
"""

import json
import os
import subprocess
import sys
import time


def main(report: str, command: list[str]) -> int:
    start = time.perf_counter()
    process = subprocess.Popen(command)
    if hasattr(os, "wait4"):
        cpu: float | None
        mib: float | None
        _, status, usage = os.wait4(process.pid, 0)
        code = process.returncode = os.waitstatus_to_exitcode(status)
        mib = usage.ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
        cpu = usage.ru_utime + usage.ru_stime
    else:
        code, cpu, mib = process.wait(), None, None
    took = {"wall": time.perf_counter() - start, "cpu": cpu, "mib": mib}
    with open(report, "w", encoding="utf-8") as file:
        json.dump(took, file)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
