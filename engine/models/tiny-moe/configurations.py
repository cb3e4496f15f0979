# The model under changed options: fewer experts per token, routed experts in int8 or int4.
# Start at configurations(); quantized() is symmetric weight-only rounding, scaled by the largest magnitude of a group.
import contextlib

import torch

import dense_experts


def quantized(weight, bits, group):
    """`weight` (..., in) rounded to signed `bits` with one float32 scale per `group` of the last dimension.

    group 0: one scale per row. A width that is no multiple of the group gets a short last group.
    """
    largest = 2 ** (bits - 1) - 1
    width = weight.shape[-1]
    pieces = []
    for start in range(0, width, group or width):
        piece = weight[..., start:start + (group or width)]
        scale = piece.abs().amax(-1, keepdim=True).clamp_min(1e-30) / largest
        pieces.append((piece / scale).round().clamp(-largest, largest) * scale)
    return torch.cat(pieces, -1)


FORMATS = {"int8": (8, 0), "int4_g32": (4, 32), "int4": (4, 128)}  # name: bits, group (0: a row)


def configurations(native_top_k):
    """{name: {"top_k", "expert_quant"}}: each knob alone, then the two together near the gates."""
    result = {f"top_k={k}": {"top_k": k, "expert_quant": "checkpoint"} for k in range(native_top_k - 1, 0, -1)}
    result |= {f"expert_quant={name}": {"top_k": native_top_k, "expert_quant": name} for name in FORMATS}
    result |= {f"top_k={k} expert_quant={name}": {"top_k": k, "expert_quant": name}
               for k in (native_top_k - 1, native_top_k - 2) for name in FORMATS}
    return result


@contextlib.contextmanager
def applied(model, top_k, expert_quant):
    """The model under one configuration; the checkpoint's own weights and top_k are back afterwards."""
    blocks = dense_experts.moe_blocks(model)
    before = [(block.gate.top_k, block.experts.gate_up_proj.data, block.experts.down_proj.data) for block in blocks]
    for block in blocks:
        block.gate.top_k = top_k
        if expert_quant != "checkpoint":
            for matrix in (block.experts.gate_up_proj, block.experts.down_proj):
                matrix.data = quantized(matrix.data, *FORMATS[expert_quant])
    try:
        yield model
    finally:
        for block, (k, gate_up, down) in zip(blocks, before):
            block.gate.top_k, block.experts.gate_up_proj.data, block.experts.down_proj.data = k, gate_up, down
