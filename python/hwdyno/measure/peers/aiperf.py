"""Runs NVIDIA's AIPerf on one of our points."""

from __future__ import annotations

from hwdyno.formats import aiperf
from hwdyno.measure.peers import load_generator
from hwdyno.measure.peers.load_generator import GeneratorLoad, LoadGenerator
from hwdyno.measure.peers.peer import PeerReading


class AiPerf(LoadGenerator):
    """AIPerf, on the path or named by ``HWDYNO_AIPERF``."""

    name = "aiperf"
    program = "aiperf"
    variable = "HWDYNO_AIPERF"
    result = "**/profile_export_aiperf.json"

    def arguments(self, load: GeneratorLoad, folder: str) -> list[str]:
        """``aiperf profile`` with synthetic prompts of fixed length."""
        how = ["--request-rate", f"{load.rate:g}", "--request-rate-mode", "constant" if load.is_constant else "poisson"]
        return [
            "profile", "--url", load.server, "--endpoint-type", "chat" if load.is_chat else "completions",
            "--streaming", "--model", load.model or "default", "--tokenizer", load.tokenizer,
            "--random-seed", str(load.seed),
            "--synthetic-input-tokens-mean", str(load.prompt), "--synthetic-input-tokens-stddev", "0",
            "--output-tokens-mean", str(load.output), "--output-tokens-stddev", "0",
            # Its own count is of the text by another tokenizer; the server's is what came.
            "--use-server-token-count", "--extra-inputs", "ignore_eos:true", "--request-count", str(load.requests()),
            *(how if load.rate else ["--concurrency", str(load.users)]), "--ui-type", "none", "--artifact-dir", folder,
        ]  # fmt: skip

    def reading(self, text: str) -> PeerReading:
        """Its only load."""
        return parse_output(text)


PEER = AiPerf()


def parse_output(text: str) -> PeerReading:
    """Read its export. Raises ``OSError`` in one line if it cannot be read."""
    return load_generator.reading(lambda document: aiperf.read_load(document, "it"), text)
