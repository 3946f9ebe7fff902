"""Runs guidellm on one of our points."""

from __future__ import annotations

from hwdyno.formats import guidellm
from hwdyno.peers import PeerReading, load_generator
from hwdyno.peers.load_generator import Load, LoadGenerator


class GuideLlm(LoadGenerator):
    """guidellm, on the path or named by ``HWDYNO_GUIDELLM``."""

    name = "guidellm"
    program = "guidellm"
    variable = "HWDYNO_GUIDELLM"
    result = "benchmarks.json"

    def arguments(self, load: Load, folder: str) -> list[str]:
        """``guidellm benchmark`` with synthetic prompts, for the time of a reading."""
        kind = "concurrent" if not load.rate else "constant" if load.is_constant else "poisson"
        return [
            "benchmark", "--target", load.server, *(["--model", load.model] if load.model else []),
            "--processor", load.tokenizer, "--rate-type", kind, "--rate", f"{load.rate or load.users:g}",
            "--data", f"prompt_tokens={load.prompt},output_tokens={load.output}", "--max-seconds", str(load.seconds),
            "--random-seed", str(load.seed), "--output-path", f"{folder}/benchmarks.json", "--disable-progress",
        ]  # fmt: skip

    def reading(self, text: str) -> PeerReading:
        """Its only load."""
        return reading_of(text)


PEER = GuideLlm()


def reading_of(text: str) -> PeerReading:
    """Read its report. Raises ``OSError`` in one line if it cannot be read."""
    return load_generator.reading(lambda one: guidellm.loads_of(one, "it")[0], text)
