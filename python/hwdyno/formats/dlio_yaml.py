"""Reads DLIO's workload files and its ``++workload.x.y=value`` overrides; an unknown key is an error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hwdyno.formats.workload import TrainingWorkload
from hwdyno.model.units import LARGEST_SIZE, is_number
from hwdyno.model.words import UserError
from hwdyno.system import foreign
from hwdyno.system.suggestions import hint

LARGEST_BYTES = 1 << 20
"""A larger workload file is refused."""
# Every key that DLIO 2.0.0 and 3.0.0 read (dlio_benchmark/utils/config.py, LoadConfig). All are accepted; only those
# that change what is read or when have an effect on what is measured here.
_KEYS: dict[str, str] = {
    "model": "name type model_size model_size_bytes optimization_groups num_layers layer_parameters model_datatype "
    "optimizer_datatype parallelism.tensor parallelism.pipeline parallelism.data parallelism.zero_stage "
    "transformer.vocab_size transformer.hidden_size transformer.ffn_hidden_size transformer.num_attention_heads "
    "transformer.num_kv_heads",
    "framework": "",
    "storage": "storage_type storage_root storage_options",
    "workflow": "train generate_data evaluation checkpoint profiling debug",
    "dataset": "record_length record_length_stdev record_length_bytes record_length_bytes_stdev "
    "record_length_bytes_resize num_files_train num_files_eval generation_buffer_size num_samples_per_file data_folder "
    "num_subfolders_train num_subfolders_eval enable_chunking chunk_size compression compression_level file_prefix "
    "format keep_files record_element_bytes record_element_type record_dims hdf5.chunk_dims hdf5.num_dset_per_record "
    "hdf5.max_shape parquet.row_group_size parquet.columns parquet.read_columns",
    "reader": "dont_use_mmap reader_classname multiprocessing_context data_loader data_loader_classname "
    "data_loader_sampler read_threads computation_threads batch_size batch_size_eval prefetch_size file_shuffle "
    "file_access shuffle_size sample_shuffle read_type transfer_size odirect preprocess_time preprocess_time_stdev "
    "pin_memory transformed_record_dims transformed_record_element_type",
    "train": "epochs total_training_steps seed_change_epoch computation_time computation_time_stdev seed",
    "evaluation": "eval_time eval_time_stdev eval_after_epoch epochs_between_evals",
    "checkpoint": "checkpoint_folder checkpoint_after_epoch epochs_between_checkpoints steps_between_checkpoints type "
    "checkpoint_mechanism_classname fsync time_between_checkpoints num_checkpoints_write num_checkpoints_read "
    "recovery_rank_shift rank_sync mode randomize_tensor model_size ksm.madv_mergeable_id ksm.high_ram_trigger "
    "ksm.low_ram_exit ksm.await_time",
    "output": "folder log_file metric.exclude_start_steps metric.exclude_end_steps",
    "profiling": "profiler iostat_devices",
    "metric": "au",
}
# DLIO draws a batch's computing time from a distribution; its mean is used.
_FREE = {"reader.preprocess_time", "train.computation_time", "evaluation.eval_time", "storage.storage_options"}
_FORMATS = {
    "npz": "npz", "npy": "npy", "tfrecord": "tfrecord", "hdf5": "hdf5", "jpeg": "jpeg", "png": "png", "csv": "csv",
    "indexed_binary": "bin", "mmap_indexed_binary": "bin", "parquet": "parquet",
}  # fmt: skip


def read(path: Path, overrides: list[str] | None = None) -> TrainingWorkload:
    """Read a workload from a DLIO file. Raises ``UserError`` in one line that names the key at fault."""
    document = foreign.parse_yaml(foreign.read_text(path, LARGEST_BYTES, "a YAML file"), str(path))
    if not isinstance(document, dict):
        raise UserError(f"{path} is not a DLIO workload: its top level must be a table")
    for override in overrides or []:
        _override(document, override)
    keys = _flatten(document, str(path))
    return _workload(keys, path)


def _override(document: dict[str, Any], text: str) -> None:
    """Apply one ``++workload.reader.batch_size=4``, in Hydra's spelling."""
    name, equals, value = text.lstrip("+").partition("=")
    parts = name.split(".")
    if not equals or parts[0] != "workload" or len(parts) < 2:
        raise UserError(f"'{text}' is not an override; write it as in DLIO:  ++workload.reader.batch_size=4")
    place = document
    for part in parts[1:-1]:
        inner = place.setdefault(part, {})
        if not isinstance(inner, dict):
            raise UserError(f"'{text}': {part} is not a table")
        place = inner
    place[parts[-1]] = foreign.parse_yaml(value, f"'{text}'")


def known_keys() -> set[str]:
    """Every key of a nested table, dotted."""
    return {f"{section}.{key}" if key else section for section, keys in _KEYS.items() for key in keys.split() or [""]}


def _flatten(document: dict[str, Any], where: str) -> dict[str, Any]:
    known, flat = known_keys(), dict[str, Any]()
    tables = {name.rpartition(".")[0] for name in known}
    tables |= {name.rpartition(".")[0] for name in tables}

    def walk(table: dict[str, Any], before: str) -> None:
        for key, value in table.items():
            # DLIO reads the reader's options under both names
            name = f"{before}{key}".replace("data_reader", "reader", 1)
            if isinstance(value, dict) and name in tables:
                walk(value, f"{name}.")
            elif (name in known and (name in _FREE or not isinstance(value, dict))) or (
                name == "model" and isinstance(value, str)
            ):
                flat[name] = value
            else:
                raise UserError(f"{where}: unknown key '{name}'; {hint(name, known)}")

    walk(document, "")
    return flat


def _workload(keys: dict[str, Any], path: Path) -> TrainingWorkload:
    def number(names: str, default: float, least: float = 0.0) -> float:
        for name in names.split():
            value = keys.get(name)
            value = value.get("mean") if isinstance(value, dict) else value
            if value is None:
                continue
            if not is_number(value) or not least <= value <= LARGEST_SIZE:
                raise UserError(f"{path}: {name} = {value!r} must be a number of {least:g} or more")
            return float(value)
        return default

    kind = str(keys.get("dataset.format", "tfrecord"))
    if kind not in _FORMATS:
        raise UserError(f"{path}: the format '{kind}' is not supported; known: {', '.join(_FORMATS)}")
    if str(keys.get("dataset.compression", "none")).lower() != "none":
        raise UserError(f"{path}: compressed data sets cannot be generated; remove dataset.compression")
    steps = int(number("train.total_training_steps", 0, -1))
    name = str(keys.get("model.name", keys.get("model", path.stem)))
    prefix = str(keys.get("dataset.file_prefix", "img"))
    for key, text in (("model.name", name), ("dataset.file_prefix", prefix)):
        # Folders and files are named after them.
        if not text or "/" in text or "\0" in text or text in {".", ".."}:
            raise UserError(f"{path}: {key} = {text!r} must be a plain name, without /")
    return TrainingWorkload(
        name=name,
        accelerator=path.stem.rpartition("_")[2],
        format=_FORMATS[kind],
        files=int(number("dataset.num_files_train", 8, 1)),
        samples_per_file=int(number("dataset.num_samples_per_file", 1, 1)),
        record_bytes=number("dataset.record_length_bytes dataset.record_length", 64 * 1024, 1),
        record_bytes_stdev=number("dataset.record_length_bytes_stdev dataset.record_length_stdev", 0),
        batch_size=int(number("reader.batch_size", 1, 1)),
        compute_s=number("train.computation_time", 0),
        read_threads=int(number("reader.read_threads", 1)),
        prefetch=_prefetch(int(number("reader.prefetch_size", 2)), int(number("reader.read_threads", 1))),
        epochs=int(number("train.epochs", 1, 1)),
        steps=max(0, steps),
        au=number("metric.au", 0.9),
        source=f"DLIO workload file {path.name}",
        transfer_size=max(4096, int(number("reader.transfer_size", 512 << 10))),
        prefix=prefix,
        subfolders=int(number("dataset.num_subfolders_train", 0)),
        row_group=int(number("dataset.parquet.row_group_size", 0)),
        columns=int(number("dataset.parquet.columns", 1, 1)),
        read_columns=int(number("dataset.parquet.read_columns", 0)),
        folder=str(keys.get("dataset.data_folder", "")),
    )


def _prefetch(batches: int, readers: int) -> int:
    """Batches that each reader prefetches: DLIO divides its prefetch_size among readers; PyTorch's default is 2.

    As ``torch_data_loader.py`` of DLIO 2.0.0 has it; its default of 2 over all readers leaves each of 4 with one.
    """
    return -(-batches // max(1, readers)) if batches > 0 else 2
