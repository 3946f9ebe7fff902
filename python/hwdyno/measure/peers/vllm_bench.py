"""Runs ``vllm bench serve`` on one of our points. It stretches its gaps so that n requests take exactly n / rate."""

from __future__ import annotations

from hwdyno.formats import vllm_bench
from hwdyno.measure.peers import load_generator
from hwdyno.measure.peers.load_generator import GeneratorLoad, LoadGenerator
from hwdyno.measure.peers.peer import PeerReading


class VllmBench(LoadGenerator):
    """vLLM's program, on the path or named by ``HWDYNO_VLLM``."""

    name = "vllm_bench"
    program = "vllm"
    variable = "HWDYNO_VLLM"
    result = "result.json"
    takes_bursts = True

    def arguments(self, load: GeneratorLoad, folder: str) -> list[str]:
        """``vllm bench serve`` with random prompts; a closed loop is its limit of requests in flight."""
        how = [
            "--request-rate",
            f"{load.rate:g}",
            "--burstiness",
            "1e9" if load.is_constant else f"{load.burstiness:g}",
        ]
        return [
            "bench", "serve", "--backend", "openai-chat" if load.is_chat else "openai", "--base-url", load.server,
            "--endpoint", load.path, *(["--model", load.model] if load.model else []), "--tokenizer", load.tokenizer,
            "--dataset-name", "random", "--random-input-len", str(load.prompt), "--random-output-len", str(load.output),
            "--num-prompts", str(load.requests()), "--seed", str(load.seed), "--ignore-eos", "--disable-tqdm",
            *(how if load.rate else ["--max-concurrency", str(load.users)]),
            "--percentile-metrics", "ttft,tpot,itl,e2el", "--metric-percentiles", "50,90,99",
            "--save-result", "--result-dir", folder, "--result-filename", "result.json",
        ]  # fmt: skip

    def reading(self, text: str) -> PeerReading:
        """Its only load."""
        return parse_output(text)


PEER = VllmBench()


def parse_output(text: str) -> PeerReading:
    """Read its result file. Raises ``OSError`` in one line if it cannot be read."""
    return load_generator.reading(lambda document: vllm_bench.read_loads(document, "it")[0], text)
