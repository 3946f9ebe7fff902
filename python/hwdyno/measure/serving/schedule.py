"""What is sent and when: users that wait for their answers (closed loop), or requests by the clock (open loop)."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, takewhile

from hwdyno.formats.request_trace import TracedRequest
from hwdyno.measure.serving.arrivals import due_times
from hwdyno.measure.serving.lengths import Lengths
from hwdyno.measure.serving.prompts import Prompt


@dataclass(frozen=True, slots=True)
class Due:
    """One request of an open loop."""

    due_s: float
    """Time after the start."""
    prompt: Prompt


@dataclass(frozen=True, slots=True)
class Load:
    """The stated load of one reading."""

    prompt: Lengths
    output: Lengths
    seed: int
    users: int = 1
    """Users of a closed loop; in an open loop it has no meaning."""
    rate: float = 0.0
    """Requests a second of an open loop; 0 for a closed one."""
    process: str = "poisson"
    burstiness: float = 1.0
    think_s: float = 0.0
    """A user's pause between an answer and the next request."""
    trace: Sequence[TracedRequest] = ()
    """Requests that are replayed at their times, or at ``rate`` if that is given."""
    shared_prefix: int = 0
    """Tokens that all prompts begin with."""
    same_prompts: bool = False
    """Send the prompts of every other load again, for any seed."""

    @property
    def is_open(self) -> bool:
        """Whether requests come by the clock, however many are still unanswered."""
        return self.rate > 0 or bool(self.trace)

    def prompts(self) -> Iterator[Prompt]:
        """Prompts without end, the same for a seed; beyond the shared prefix no two begin alike."""
        numbers = random.Random(f"prompts {self.seed}")
        words = 0 if self.same_prompts else self.seed
        for at in count():
            lengths = self.prompt.draw(numbers), self.output.draw(numbers)
            yield Prompt(*lengths, (words << 20) + at, shared=self.shared_prefix)

    def arrivals_until(self, runtime_s: float) -> list[Due]:
        """The requests of an open loop that are due within a time, in its order."""
        return list(takewhile(lambda arrival: arrival.due_s <= runtime_s, self.arrivals()))

    def arrivals(self) -> Iterator[Due]:
        """The requests of an open loop in order of time."""
        if self.trace:
            yield from self._trace_requests()
            return
        numbers = random.Random(f"arrivals {self.seed}")
        times = due_times(self.process, self.rate, self.burstiness, numbers)
        for due_s, prompt in zip(times, self.prompts(), strict=False):
            yield Due(due_s, prompt)

    def _trace_requests(self) -> Iterator[Due]:
        """The trace's requests; with a rate its times are stretched to that mean rate."""
        span_s = self.trace[-1].due_s
        stretch = (len(self.trace) - 1) / self.rate / span_s if self.rate > 0 and span_s > 0 else 1.0
        for at, request in enumerate(self.trace):
            prompt = Prompt(
                max(1, request.prompt_tokens),
                request.output_tokens,
                (self.seed << 20) + at,
                request.blocks,
                self.shared_prefix,
            )
            yield Due(request.due_s * stretch, prompt)
