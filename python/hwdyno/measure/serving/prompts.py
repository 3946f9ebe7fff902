"""The bodies of requests: prompts of an exact number of tokens, of which no two begin alike unless a trace says so."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass

from hwdyno.formats.request_trace import BLOCK_TOKENS

FIRST_TOKEN, TOKENS = 300, 2000
"""Token ids that are sent: every common vocabulary has as many, with special ones and single bytes below them."""
_SHARED = "shared prefix"
# Words that common tokenizers know as one token each.
_WORDS = (
    *("time", "year", "people", "way", "day", "man", "thing", "woman", "life", "child", "world", "school", "state"),
    *("family", "student", "group", "country", "problem", "hand", "part", "place", "case", "week", "company"),
    *("system", "program", "question", "work", "government", "number", "night", "point", "home", "water", "room"),
    *("mother", "area", "money", "story", "fact", "month", "lot", "right", "study", "book", "eye", "job", "word"),
)


@dataclass(frozen=True, slots=True)
class Prompt:
    """What one request asks for."""

    tokens: int
    output_tokens: int
    seed: int
    blocks: tuple[int, ...] = ()
    """512-token blocks that it begins with, by number: equal numbers are equal tokens."""
    shared: int = 0
    """Tokens that it begins with and that all prompts have in common, as far as its length goes."""


@dataclass(frozen=True, slots=True)
class Wording:
    """How a request is written for a server."""

    chat: bool
    """Messages for ``/v1/chat/completions``, instead of token ids for ``/v1/completions``."""
    model: str
    text: bool = False
    """Words instead of token ids, whose number the server counts."""
    ignore_end: bool = True
    """Ask the server to go on past an end-of-text token, so that answers have their length (``ignore_eos``)."""
    reuse_prompts: bool = False
    """Let the server take the beginnings of prompts from its cache; otherwise the request forbids it."""

    def body(self, prompt: Prompt) -> bytes:
        """The JSON of a request with streaming and usage."""
        fields: dict[str, object] = {"model": self.model} if self.model else {}
        if self.chat:
            fields["messages"] = [{"role": "user", "content": prompt_text(prompt)}]
        else:
            fields["prompt"] = prompt_text(prompt) if self.text else token_ids(prompt)
        fields |= {
            "max_tokens": prompt.output_tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
            "temperature": 0.0,
            "seed": prompt.seed % (1 << 31),
        }
        if self.ignore_end:
            fields["ignore_eos"] = True
        if not self.reuse_prompts:
            fields["cache_prompt"] = False
        return json.dumps(fields, separators=(",", ":")).encode()


def token_ids(prompt: Prompt) -> list[int]:
    """The prompt's token ids, as many as it has tokens: those that all share, those of its blocks, its own."""
    ids = _draw_tokens(random.Random(_SHARED), min(prompt.shared, prompt.tokens))
    for block in prompt.blocks:
        if len(ids) >= prompt.tokens:
            break
        ids += _draw_tokens(random.Random(block), BLOCK_TOKENS)
    ids = ids[: prompt.tokens]
    return ids + _draw_tokens(random.Random(prompt.seed), prompt.tokens - len(ids))


def prompt_text(prompt: Prompt) -> str:
    """The prompt's words, about as many as it has tokens."""
    return " ".join(_WORDS[token % len(_WORDS)] for token in token_ids(prompt))


def _draw_tokens(numbers: random.Random, count: int) -> list[int]:
    return [FIRST_TOKEN + int(numbers.random() * TOKENS) for _ in range(count)]
