"""Plans for joint graphs: the workbench program is called, and what it made is kept for the next time."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import torch

from ._binary import find
from .errors import DoesNotFitError, Reason, UnsupportedError

UNITS = {"": 1, "B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
INFEASIBLE, NO_PLAN = 3, 4
Memory = int | float | str | None


def program() -> str:
    """Returns the path of the workbench program.

    Raises:
        UnsupportedError: there is none.
    """
    try:
        return str(find())
    except UnsupportedError as e:
        raise UnsupportedError(e.message, reason=Reason.PROGRAM) from e


def memory_flag(memory: Memory, device: torch.device) -> str:
    """Returns a memory as the program reads it.

    Args:
        memory: bytes, a text with a unit ("40GiB"), a part of the peak of keeping everything ("50%") or of the range
            from the minimum to that ("range 30%"), or None for what the CUDA device has free.
        device: where the step runs.

    Raises:
        UnsupportedError: the text cannot be read, or None was given and the device is no CUDA device.
    """
    if memory is None:
        if device.type != "cuda":
            hint = 'give bytes or a text as "4GiB"'
            raise UnsupportedError("memory=None means what is free on a GPU, and the step is on a CPU", hint=hint)
        free, _ = torch.cuda.mem_get_info(device)
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return str(int(0.96 * (free + unused)))  # the rest is for fragmentation
    text = str(memory).strip()
    found = re.fullmatch(r"(?:(?:range|peak) (?=.*%))?([0-9.]+(?:e[0-9]+)?)\s*([a-zA-Z]*|%)", text)
    try:
        number = float(found[1]) if found else math.nan
    except ValueError:
        number = math.nan
    if found is None or not number > 0 or found[2] != "%" and found[2].upper() not in UNITS:
        raise UnsupportedError(f"memory={memory!r} cannot be read", hint='give bytes, "40GiB" or "50%"')
    return text if found[2] == "%" else str(int(number * UNITS[found[2].upper()]))


def describe(device: torch.device) -> dict[str, Any]:
    """Returns the fields of an instance that describe a device."""
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        return {"device": properties.name, "device_memory": properties.total_memory}
    return {"device": "cpu", "threads": torch.get_num_threads()}


def cache_folder() -> Path:
    """Returns where plans are kept between runs."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "workbench" / "plans"


def graph_of(path: Path, plan: dict[str, Any]) -> dict[str, Any]:
    """Returns the graph/v2 that a plan is for, found where the plan says or next to it; the program verifies the plan.

    Raises:
        UnsupportedError: there is no such graph, or the plan is for another one, of another problem, or invalid.
    """
    if plan.get("problem") != "remat":
        what = f"plans of {plan.get('problem')} for graphs are not run here, those of remat are"
        raise UnsupportedError(f"{path}: {what}", reason=Reason.PLAN)
    source = Path(plan.get("instance", {}).get("source") or "graph.json")
    found = next((f for f in (source, path.parent / source.name) if f.is_file()), None)
    if found is None:
        raise UnsupportedError(f"{path}: its graph {source} is not found: put it next to the plan", reason=Reason.PLAN)
    done = subprocess.run([program(), "verify", str(found), str(path)], capture_output=True, text=True)
    if done.returncode != 0:
        raise UnsupportedError(f"{path} for {found}: {(done.stderr or done.stdout).strip()}", reason=Reason.PLAN)
    graph: dict[str, Any] = json.loads(found.read_text())
    return graph


def solve(document: dict[str, Any], memory: str, *, method: str = "search", seconds: float = 10) -> dict[str, Any]:
    """Returns a plan (workbench.plan/v1) for a graph; its proven bound of the time is in ``x-bound``.

    Args:
        document: the graph, workbench.graph/v2.
        memory: as :func:`memory_flag` returns it.
        method: of ``workbench methods remat``.
        seconds: the time limit.

    Raises:
        DoesNotFitError: no plan fits, with the minimum.
        UnsupportedError: the program is missing or failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        graph, plan = Path(folder) / "graph.json", Path(folder) / "plan.json"
        graph.write_text(json.dumps(document))
        command = [program(), "solve", "--problem", "remat", str(graph), "--memory", memory, "--method", method]
        command += ["--time-limit", f"{seconds:g}s", "--quiet", "--format", "json", "--plan", str(plan)]
        environment = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
        try:
            done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        except OSError as e:
            raise UnsupportedError(f"{command[0]} cannot be run: {e.strerror}", reason=Reason.PROGRAM) from e
        if done.returncode:
            raise _failure(done, document)
        return {**json.loads(plan.read_text()), "x-bound": (json.loads(done.stdout).get("bound") or {}).get("value", 0)}


def _failure(done: subprocess.CompletedProcess[str], document: dict[str, Any]) -> Exception:
    try:
        said = json.loads(done.stdout)
    except ValueError:
        said = {}
    message = said.get("error") or done.stderr.strip() or f"workbench ended with status {done.returncode}"
    message = message.removeprefix("workbench: ").removeprefix("remat: ")
    known = {n["id"]: f"{n['operation']} of {n.get('layer') or 'the step'}" for n in document["nodes"]}
    message = re.sub(r"\bn\d+\b", lambda m: known.get(m[0], m[0]), message)
    if done.returncode not in (INFEASIBLE, NO_PLAN):
        return UnsupportedError(message, reason=Reason.PROGRAM)
    found = re.search(r"at least (?:.*\()?(\d+) bytes?\)? are needed|known plan is (?:.*\()?(\d+) bytes?", message)
    minimum, limit = int(found[1] or found[2]) if found else 0, int(said.get("platform", {}).get("memory") or 0)
    samples = int(document.get("samples", 1))
    batch = math.floor(samples * limit / minimum) if minimum else 0
    hint = f"; about {batch} of {samples} samples would fit" if 0 < batch < samples else ""
    return DoesNotFitError(message + hint, minimum=minimum, largest_batch=batch)


def cache_file(document: dict[str, Any], memory: str, method: str, seconds: float) -> Path:
    """Returns where a planned step is kept; times and workspaces, which vary, do not count."""
    what = [document["nodes"], document["storages"], document["source"], memory, method, seconds]
    return cache_folder() / f"{hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:32]}.json"


def kept(path: Path) -> dict[str, Any] | None:
    """Returns what :func:`keep` wrote; None where it wrote nothing."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


def keep(path: Path, made: dict[str, Any]) -> None:
    """Writes a planned step for the next time; a cache that cannot be written is no error."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(f".{os.getpid()}")
        partial.write_text(json.dumps(made))
        partial.replace(path)
    except OSError:
        pass
