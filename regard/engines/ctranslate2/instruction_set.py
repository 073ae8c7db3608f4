"""AVX-512 for CTranslate2. It has kernels for it but uses AVX2 unless told otherwise, because wide vectors made older
CPUs lower their clock. Those with VNNI (Intel since 2019, AMD since 2022) no longer do so noticeably."""

from __future__ import annotations

import os
from pathlib import Path

SETTING = "CT2_FORCE_CPU_ISA"
NEEDED = {"avx512f", "avx512cd", "avx512vl", "avx512bw", "avx512dq", "avx512_vnni"}


def use_avx512_where_it_helps(cpuinfo: Path = Path("/proc/cpuinfo")) -> None:
    """Call it before `import ctranslate2`; a setting of the user's stays."""
    if SETTING not in os.environ and _flags(cpuinfo) >= NEEDED:
        os.environ[SETTING] = "AVX512"


def _flags(cpuinfo: Path) -> set[str]:
    """What the first CPU can do; empty where the system does not say."""
    try:
        with cpuinfo.open(encoding="utf-8", errors="replace") as file:
            return next((set(line.split()) for line in file if line.startswith("flags")), set())
    except OSError:
        return set()
