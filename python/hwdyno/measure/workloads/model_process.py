"""A process that loads or runs a model once: a job as JSON in its argument, the answer as JSON on its output.

Each reading has a separate process, so that its page faults, its memory and its CPU time are the loader's alone.
"""

from __future__ import annotations

import errno
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hwdyno.measure.workloads import model_files as files
from hwdyno.measure.workloads.model_phases import Phases, counters
from hwdyno.system import memory_limits, safe_files

_MIN_ROOM = 1 << 20
"""Bytes; a storage with less is full for an engine that does not say why it could not write."""


# --- load

Loader = Callable[[dict[str, Any], Path, Any, Phases], int]
"""Loads the files of a job, counts its parts, and gives the bytes of the files."""


def load(job: dict[str, Any]) -> dict[str, Any]:
    """Load a model's files once, from storage or from the page cache, up to the first answer."""
    path, loader = Path(job["path"]), str(job["loader"])
    its = files.list_files(path, loader)
    for name in ("onnxruntime",) * (loader in {"onnxruntime", "mapped"}) + ("xllamacpp",) * (loader == "llama.cpp"):
        __import__(name)
    (files.drop if job["cache"] == "cold" else files.warm)(its)
    cached = files.cached_share(its)
    phases = Phases()
    size = _LOADERS[loader](job, path, its, phases)
    known = {} if cached is None else {"cached_before": cached}
    return phases.report(size, {**known, "fetched_bytes": phases.total("fetched")})


def _plain(*, reuses: bool, direct: bool) -> Loader:
    """Plain reads into buffers that are used again, or into fresh memory; either is made before the clock starts."""

    def load(job: dict[str, Any], path: Path, its: Any, phases: Phases) -> int:
        chunk, threads = int(job["chunk"]), int(job["threads"])
        into = files.reuse_buffers(chunk, threads) if reuses else files.fresh(its, chunk)
        with phases.phase("read"):
            return files.read(its, chunk, threads, into, direct=direct)

    return load


def _mmap(job: dict[str, Any], path: Path, its: Any, phases: Phases) -> int:
    with phases.phase("read"):
        return files.touch_mapped(its)


def _safetensors(job: dict[str, Any], path: Path, its: Any, phases: Phases) -> int:
    from safetensors.numpy import load_file

    with phases.phase("deserialize"):
        loaded = load_file(str(its[-1]))
    return sum(array.nbytes for array in loaded.values())


def _onnxruntime(job: dict[str, Any], path: Path, its: Any, phases: Phases) -> int:
    from hwdyno.measure.workloads.model_stacks import Onnx

    with phases.phase("deserialize"):
        model = Onnx(path, str(job["model"]))
    with phases.phase("first_answer"):
        model.first()
    return files.total_bytes(its)


def _load_mapped(job: dict[str, Any], path: Path, its: Any, phases: Phases) -> int:
    from hwdyno.measure.workloads.model_stacks import Onnx

    with phases.phase("open"):
        files.read_ahead(its)
    with phases.phase("deserialize"):
        model = Onnx(path, str(job["model"]), prepack=False)
    with phases.phase("first_answer"):
        model.first()
    return files.total_bytes(its)


def _llama(job: dict[str, Any], path: Path, its: Any, phases: Phases) -> int:
    from hwdyno.measure.workloads.model_stacks import Llama, make_prompt

    with phases.phase("deserialize"):
        # More threads than processors are free spin at each operation's barrier: 60 times the CPU time, measured.
        model = Llama(path, threads=1)
    with phases.phase("first_answer"):
        model.complete(make_prompt(1, 512), 1)
    return files.total_bytes(its)


_LOADERS: dict[str, Loader] = {
    "raw": _plain(reuses=True, direct=True), "direct": _plain(reuses=False, direct=True),
    "read": _plain(reuses=False, direct=False), "mmap": _mmap, "safetensors": _safetensors,
    "onnxruntime": _onnxruntime, "mapped": _load_mapped, "llama.cpp": _llama,
}  # fmt: skip


# --- decode


def decode(job: dict[str, Any]) -> dict[str, Any]:
    """Decode tokens one after the other for the runtime, after a prompt."""
    from hwdyno.measure.workloads.model_stacks import Llama, Onnx, make_prompt

    path, threads, prompt = Path(job["path"]), int(job["threads"]), int(job["prompt"])
    times: list[float] = []
    if job["stack"] == "llama.cpp":
        llama = Llama(path, threads=threads, context=int(job["context"]))
        ids, count = make_prompt(prompt, 512), 2
        used, until = counters(), time.perf_counter() + float(job["runtime"])
        # The server answers a completion as a whole: each token counts with the server's average time.
        while not times or time.perf_counter() < until:
            timings = llama.complete(ids, count + 1, cached=True)
            times += [timings["predicted_ms"] / 1e3 / max(1, timings["predicted_n"])] * int(timings["predicted_n"])
            count = min(128, 2 * count)
        first_s = timings["prompt_ms"] / 1e3
    else:
        model = Onnx(path, str(job["model"]), prepack=bool(job["prepack"]), threads=threads)
        assert model.model is not None and model.model.decoder is not None
        shape = model.model.decoder
        ids = make_prompt(prompt, shape.vocab)
        model.first()
        begun = time.perf_counter()
        token = int(model.decode(ids, 0).argmax())
        first_s, past = time.perf_counter() - begun, prompt
        used, until = counters(), time.perf_counter() + float(job["runtime"])
        while not times or time.perf_counter() < until:
            begun = time.perf_counter()
            token = int(model.decode([token], past).argmax())
            times.append(time.perf_counter() - begun)
            past = past + 1 if past + 2 < shape.context else prompt
    spent = counters()
    return {
        "times_s": times,
        "elapsed_s": sum(times),
        "user_s": spent["user"] - used["user"],
        "system_s": spent["system"] - used["system"],
        "details": {"first_token_s": first_s, "prefill_tokens_s": prompt / first_s if first_s else 0.0},
    }


# --- serve


def serve(job: dict[str, Any]) -> dict[str, Any]:
    """Answer a load from this process, after a step that brings the weights into memory."""
    from hwdyno.measure.serving import in_process
    from hwdyno.measure.workloads.inference_serving import make_load
    from hwdyno.measure.workloads.model_batch import Batch

    numbers = {"slots": int(job["batch"]), "context": int(job["context"]), "threads": int(job["threads"])}
    engine = Batch(Path(job["path"]), str(job["model"]), **numbers)
    engine.start(0, [1])
    engine.step([0])
    before = counters()
    found = in_process.drive(engine, make_load(job), runtime_s=float(job["runtime"]), min_requests=int(job["requests"]))
    after = counters()
    spent = found.spent
    busy_s = spent.prompt_s + spent.step_s
    cpu_s = after["user"] + after["system"] - before["user"] - before["system"]
    stepped_bytes = spent.steps * engine.weights_bytes + spent.context_tokens * engine.kv_bytes
    return {
        "requests": [asdict(request) for request in found.requests],
        "failures": found.failures,
        "cpu": [found.client_user_s, found.client_system_s],
        "details": {
            "engine_busy": busy_s / (busy_s + spent.idle_s) if busy_s else 0.0,
            "prompt_share": spent.prompt_s / busy_s if busy_s else 0.0,
            # Of the processors that the engine was given, while it had something to do.
            "engine_cpu_share": cpu_s / (busy_s * numbers["threads"]) if busy_s else 0.0,
            "major_faults": after["major"] - before["major"],
            "weights_bytes": float(engine.weights_bytes),
            **({"fetched_share": (after["fetched"] - before["fetched"]) / stepped_bytes} if stepped_bytes else {}),
            **({"prompt_tokens_engine_s": spent.prompt_tokens / spent.prompt_s} if spent.prompt_s else {}),
            **_steps(spent, stepped_bytes),
        },
    }


def _steps(spent: Any, stepped_bytes: int) -> dict[str, float]:
    """What the steps read: bytes of weights and KV cache a token and a second, and tokens a step."""
    if not spent.stepped_tokens:
        return {}
    return {
        "tokens_a_step": spent.stepped_tokens / spent.steps,
        "bytes_per_token": stepped_bytes / spent.stepped_tokens,
        "step_bytes_s": stepped_bytes / spent.step_s,
        "step_s": spent.step_s / spent.steps,
    }


# --- restore or recompute


def restore(job: dict[str, Any]) -> dict[str, Any]:
    """The next token after a context: by computing the context again, or by reading its KV cache from storage."""
    return (_restore_llama if job["stack"] == "llama.cpp" else _restore_onnx)(job)


def _restore_onnx(job: dict[str, Any]) -> dict[str, Any]:
    import numpy as np

    from hwdyno.measure.workloads.model_stacks import Onnx, make_prompt

    path, tokens, threads = Path(job["path"]), int(job["tokens"]), int(job["threads"])
    model = Onnx(path, str(job["model"]), threads=threads)
    assert model.model is not None and model.model.decoder is not None
    shape = model.model.decoder
    *context, last = make_prompt(tokens + 1, shape.vocab)
    model.first()

    def compute_answer() -> Any:
        model.decode(context, 0)
        return model.decode([last], tokens)

    name = f"kv-onnxruntime-{tokens}"
    file, known = path / name, path / f"{name}-answer-{threads}"
    if job["way"] == "recompute":
        used, begun = counters(), time.perf_counter()
        model.decode(context, 0)
        prefilled = time.perf_counter() - begun
        model.decode([last], tokens)
        return _report_restore(job, time.perf_counter() - begun, used, 0, {"prefill_s": prefilled})
    # What the context gives by computing it: once for all readings, beside its KV cache.
    right = np.fromfile(known, np.float32) if known.exists() and file.exists() else compute_answer()
    parts = model.slices(tokens)
    with _saving(path, tokens, file, known):
        for missing, pieces in ((name, parts), (known.name, [right])):
            if not (path / missing).exists():
                _save(path, missing, pieces)
    size = file.stat().st_size
    for part in parts:
        part[:] = 0
    (files.drop if job["cache"] == "cold" else files.warm)((file,))
    cached = files.cached_share((file,))
    used, begun = counters(), time.perf_counter()
    read = _read_into(file, parts)
    read_s = time.perf_counter() - begun
    answer = model.decode([last], tokens)
    elapsed = time.perf_counter() - begun
    restored = _report_restore(job, elapsed, used, size, {"restore_s": read_s, "kv_bytes": float(size)})
    if read != size or not (np.array_equal(answer, right) or np.array_equal(answer, compute_answer())):
        raise OSError(f"{file}: the restored KV cache gives another token than the computed one")
    restored["details"] |= {} if cached is None else {"cached_before": cached}
    return restored


@contextmanager
def _saving(folder: Path, tokens: int, *saved: Path) -> Iterator[None]:
    """Leave no part of what cannot be saved, which a later reading would take for the whole, and say why."""
    try:
        yield
    except OSError as error:
        room = os.statvfs(folder)
        is_full = (
            error.errno in {errno.ENOSPC, errno.EDQUOT}
            or not room.f_favail
            or room.f_bavail * room.f_frsize < _MIN_ROOM
        )
        with safe_files.Folder.for_files(folder) as there:
            for path in saved:
                if (status := there.status(path.name)) is not None:
                    there.remove(path.name, safe_files.file_identity(status))
        why = os.strerror(errno.ENOSPC) if is_full else error.strerror or str(error)
        hint = "; free space or use fewer --tokens" if is_full else ""
        raise OSError(f"the KV cache of {tokens} tokens could not be written to {folder}: {why}{hint}") from None


def _save(folder: Path, name: str, parts: Any) -> None:
    with safe_files.Folder.for_files(folder) as there:
        descriptor = there.create(name)
        try:
            for part in parts:
                safe_files.write_all(descriptor, part.tobytes())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _read_into(file: Path, parts: Any) -> int:
    """Read a file of KV cache into its places, as many at once as one call takes."""
    descriptor, done, most = os.open(file, os.O_RDONLY | os.O_CLOEXEC), 0, os.sysconf("SC_IOV_MAX")
    try:
        for at in range(0, len(parts), most):
            done += os.preadv(descriptor, parts[at : at + most], done)
    finally:
        os.close(descriptor)
    return done


def _restore_llama(job: dict[str, Any]) -> dict[str, Any]:
    from hwdyno.measure.workloads.model_stacks import Llama, make_prompt

    path, tokens = Path(job["path"]), int(job["tokens"])
    llama = Llama(path, threads=int(job["threads"]), context=int(job["context"]), slots=path.absolute())
    ids = make_prompt(tokens + 1, 512)
    name = f"kv-llama-{tokens}"
    file = path / name
    if job["way"] == "recompute" or not file.exists():
        used, begun = counters(), time.perf_counter()
        timings = llama.complete(ids, 1)
        elapsed = time.perf_counter() - begun
        if job["way"] == "recompute":
            return _report_restore(job, elapsed, used, 0, {"prefill_s": timings["prompt_ms"] / 1e3})
        with _saving(path, tokens, file):
            llama.slot("save", name)
        llama.slot("erase")
    size = file.stat().st_size
    (files.drop if job["cache"] == "cold" else files.warm)((file,))
    cached = files.cached_share((file,))
    used, begun = counters(), time.perf_counter()
    llama.slot("restore", name)
    read_s = time.perf_counter() - begun
    timings = llama.complete(ids, 1, cached=True)
    elapsed = time.perf_counter() - begun
    if timings["cache_n"] < tokens - 1:
        raise OSError(f"llama.cpp used {timings['cache_n']} of {tokens} restored tokens: the KV cache was not restored")
    details = {"restore_s": read_s, "kv_bytes": float(size), **({} if cached is None else {"cached_before": cached})}
    return _report_restore(job, elapsed, used, size, details)


def _report_restore(
    job: dict[str, Any], elapsed: float, used: dict[str, float], size: int, details: Any
) -> dict[str, Any]:
    spent = counters()
    return {
        "bytes": size,
        "elapsed_s": elapsed,
        "tokens": int(job["tokens"]),
        "user_s": spent["user"] - used["user"],
        "system_s": spent["system"] - used["system"],
        "details": {**details, "next_token_s": elapsed},
    }


# --- images


def classify(job: dict[str, Any]) -> dict[str, Any]:
    """Classify images from files in a closed loop of threads."""
    from hwdyno.measure.workloads import model_images

    return model_images.classify(job, counters)


def stream(job: dict[str, Any]) -> dict[str, Any]:
    """Load a model from an object store once."""
    from hwdyno.measure.workloads import model_stream

    return model_stream.load(job)


_JOBS = {"load": load, "stream": stream, "decode": decode, "restore": restore, "classify": classify, "serve": serve}


def main() -> None:
    """Do the job of the command line; an error is one line, and status 1."""
    # What a library prints must not get into the answer.
    answer = os.dup(1)
    os.dup2(2, 1)
    job = json.loads(sys.argv[1])
    memory_limits.refuse_large_libraries()
    try:
        made = _JOBS[job["do"]](job)
    except Exception as error:
        # An error of this tool's own is a sentence.
        kind = "" if isinstance(error, OSError) and error.errno is None else f"{type(error).__name__}: "
        says = memory_limits.explain_refusal(error) or f"{kind}{' '.join(str(error).split())}"
        sys.stderr.write(f"{says}\n")
        sys.exit(1)
    os.write(answer, json.dumps(made).encode())


if __name__ == "__main__":
    main()
