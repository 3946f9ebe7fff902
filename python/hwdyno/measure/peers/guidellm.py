"""Runs guidellm on one of our points."""

from __future__ import annotations

import re

from hwdyno.formats import guidellm
from hwdyno.measure.peers import load_generator
from hwdyno.measure.peers.load_generator import GeneratorLoad, LoadGenerator
from hwdyno.measure.peers.peer import PeerReading

RUN_SINCE = (0, 7)
"""The version since which its options are kinds with values."""


class GuideLlm(LoadGenerator):
    """guidellm, on the path or named by ``HWDYNO_GUIDELLM``."""

    name = "guidellm"
    program = "guidellm"
    variable = "HWDYNO_GUIDELLM"
    result = "benchmarks.json"

    def arguments(self, load: GeneratorLoad, folder: str) -> list[str]:
        """``guidellm run``, until 0.6 ``guidellm benchmark``, with synthetic prompts, for the time of a reading."""
        kind = "concurrent" if not load.rate else "constant" if load.is_constant else "poisson"
        found = re.search(r"(\d+)\.(\d+)", self.version() or "")
        if found and (int(found[1]), int(found[2])) >= RUN_SINCE:
            model = f",model={load.model}" if load.model else ""
            # Its check asks /health, which not every server has.
            backend = f"kind=openai_http,target={load.server}{model},request_format={load.path},validate_backend=false"
            return [
                "run", "--backend", backend,
                "--profile", f"kind={kind},{'rate' if load.rate else 'streams'}={load.rate or load.users:g}",
                "--constraint", f"kind=max_duration,seconds={load.seconds}",
                "--tokenizer", f"kind=hf_auto,model={load.tokenizer}",
                "--data", f"kind=synthetic_text,prompt_tokens={load.prompt},output_tokens={load.output}",
                "--seed", f"kind=static,value={load.seed}", "--output", f"kind=json,path={folder}/benchmarks.json",
                "--disable-console",
            ]  # fmt: skip
        return [
            "benchmark", "--target", load.server, *(["--model", load.model] if load.model else []),
            "--processor", load.tokenizer, "--rate-type", kind, "--rate", f"{load.rate or load.users:g}",
            "--data", f"prompt_tokens={load.prompt},output_tokens={load.output}", "--max-seconds", str(load.seconds),
            "--random-seed", str(load.seed), "--output-path", f"{folder}/benchmarks.json", "--disable-progress",
        ]  # fmt: skip

    def reading(self, text: str) -> PeerReading:
        """Its only load."""
        return parse_output(text)


PEER = GuideLlm()


def parse_output(text: str) -> PeerReading:
    """Read its report. Raises ``OSError`` in one line if it cannot be read."""
    return load_generator.reading(lambda document: guidellm.read_loads(document, "it")[0], text)
