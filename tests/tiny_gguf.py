"""A language model of a few hundred kB with random weights, as a GGUF file that llama.cpp serves."""

from __future__ import annotations

from pathlib import Path

import numpy as np

DIM, LAYERS, HEADS, KV_HEADS, FFN, VOCABULARY, CONTEXT = 128, 2, 4, 2, 256, 2400, 2048
BYTE_TOKENS = 256


def write(path: Path) -> Path:
    """Write the model; its vocabulary has three special tokens, all bytes, and words."""
    import gguf

    file = gguf.GGUFWriter(str(path), "llama")
    file.add_context_length(CONTEXT)
    file.add_embedding_length(DIM)
    file.add_block_count(LAYERS)
    file.add_feed_forward_length(FFN)
    file.add_head_count(HEADS)
    file.add_head_count_kv(KV_HEADS)
    file.add_layer_norm_rms_eps(1e-5)
    file.add_rope_dimension_count(DIM // HEADS)
    file.add_vocab_size(VOCABULARY)
    words = VOCABULARY - BYTE_TOKENS - 3
    tokens = [b"<unk>", b"<s>", b"</s>", *(b"<0x%02X>" % token for token in range(BYTE_TOKENS))]
    file.add_tokenizer_model("llama")
    file.add_token_list([*tokens, *(b"w%d" % token for token in range(words))])
    file.add_token_scores([0.0] * VOCABULARY)
    file.add_token_types([2, 3, 3, *[6] * BYTE_TOKENS, *[1] * words])
    file.add_bos_token_id(1)
    file.add_eos_token_id(2)
    file.add_unk_token_id(0)
    numbers, ones = np.random.default_rng(1), np.ones(DIM, np.float32)
    shapes = {"token_embd": (VOCABULARY, DIM), "output": (VOCABULARY, DIM)}
    for layer in range(LAYERS):
        head, narrow = f"blk.{layer}", KV_HEADS * DIM // HEADS
        shapes |= {f"{head}.attn_q": (DIM, DIM), f"{head}.attn_output": (DIM, DIM)}
        shapes |= {f"{head}.attn_k": (narrow, DIM), f"{head}.attn_v": (narrow, DIM)}
        shapes |= {f"{head}.ffn_gate": (FFN, DIM), f"{head}.ffn_up": (FFN, DIM), f"{head}.ffn_down": (DIM, FFN)}
        for norm in ("attn_norm", "ffn_norm"):
            file.add_tensor(f"{head}.{norm}.weight", ones)
    file.add_tensor("output_norm.weight", ones)
    for name, shape in shapes.items():
        file.add_tensor(f"{name}.weight", (0.02 * numbers.standard_normal(shape)).astype(np.float32))
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()
    return path
