"""The job for Slurm: it is a valid script, and what it starts trains. Slurm itself is not here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "docs" / "cluster" / "train.sbatch"
TINY = ["sst2-lstm", "--tiny", "--steps", "4", "--device", "cpu"]


def job(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The script with the variables that Slurm sets, and stand-ins that run everything on this machine."""
    programs = folder / "bin"
    programs.mkdir()
    stand_ins = {
        "scontrol": 'test "$*" = "show hostnames node[1-2]" && printf "127.0.0.1\\n127.0.0.2\\n"',
        "srun": 'while [[ $1 == --* ]]; do shift; done; exec "$@"',
        "torchrun": f'printf "%s\\n" "$*" > torchrun.txt; exec {sys.executable} -m torch.distributed.run "$@"',
    }
    for name, body in stand_ins.items():
        (programs / name).write_text(f"#!/bin/bash\n{body}\n")
        (programs / name).chmod(0o755)
    slurm = {"JOB_ID": "4711", "JOB_NAME": "regard", "JOB_NODELIST": "node[1-2]", "NNODES": "1", "GPUS_ON_NODE": "1"}
    environment = {**os.environ, **{f"SLURM_{name}": value for name, value in slurm.items()}}
    environment |= {"PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        ["bash", str(SCRIPT), *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )


def test_the_script_is_valid() -> None:
    subprocess.run(["bash", "-n", str(SCRIPT)], check=True)
    directives = [line for line in SCRIPT.read_text().splitlines() if line.startswith("#SBATCH")]
    assert "#SBATCH --requeue" in directives and "#SBATCH --no-kill" in directives
    if found := shutil.which("shellcheck"):
        subprocess.run([found, str(SCRIPT)], check=True)


def test_without_a_recipe_it_says_how_it_is_used(tmp_path: Path) -> None:
    done = job(tmp_path)
    assert done.returncode == 2 and done.stderr.startswith("usage: sbatch")


@pytest.mark.slow
def test_what_it_starts_trains_and_a_requeued_job_goes_on(tmp_path: Path) -> None:
    first = job(tmp_path, *TINY, "training.save_every=2")
    assert first.returncode == 0, first.stderr
    started = (tmp_path / "torchrun.txt").read_text()
    assert "--rdzv-endpoint 127.0.0.1:24711 --rdzv-id 4711" in started and "--nnodes 1:1" in started
    run = tmp_path / "runs" / "regard-4711"
    assert (run / "model" / "manifest.json").is_file()
    shutil.rmtree(tmp_path / "bin")
    again = job(tmp_path, *TINY, "training.save_every=2")
    assert again.returncode == 0 and "restarted: going on with runs/regard-4711" in again.stderr, again.stderr
