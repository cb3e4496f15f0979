# The checkpoint's files: config.json is written by hand, model.safetensors by save_checkpoint().
# Tensor names are those of published DeepSeek-V3 checkpoints: one gate, up and down matrix per expert.
import pathlib

import safetensors.torch
import torch
from transformers import DeepseekV3Config, DeepseekV3ForCausalLM

HERE = pathlib.Path(__file__).resolve().parent


def new_model():
    """A freshly initialised float32 model from config.json; the caller seeds torch first."""
    return DeepseekV3ForCausalLM(DeepseekV3Config.from_pretrained(HERE))


def load_model(folder=HERE):
    """The checkpoint in float32 through transformers' own loader; raises when a tensor is missing or left over."""
    model, info = DeepseekV3ForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="sdpa", output_loading_info=True)
    problems = {key: value for key, value in info.items() if value}
    if problems:
        raise RuntimeError(f"{folder}: checkpoint and class disagree: {problems}")
    return model.eval()


def published_tensors(model):
    """{name: tensor} in bfloat16; the selection bias stays float32, as in published checkpoints."""
    tensors = {}
    for name, value in model.state_dict().items():
        value = value.detach().cpu()
        if name.endswith("experts.gate_up_proj"):
            base = name.removesuffix("gate_up_proj")
            for expert, gate_up in enumerate(value):
                gate, up = gate_up.chunk(2)
                tensors[f"{base}{expert}.gate_proj.weight"] = gate
                tensors[f"{base}{expert}.up_proj.weight"] = up
        elif name.endswith("experts.down_proj"):
            base = name.removesuffix("down_proj")
            for expert, down in enumerate(value):
                tensors[f"{base}{expert}.down_proj.weight"] = down
        else:
            tensors[name] = value
    return {name: value.to(torch.float32 if name.endswith("e_score_correction_bias") else torch.bfloat16).contiguous()
            for name, value in tensors.items()}


def save_checkpoint(model, path):
    safetensors.torch.save_file(published_tensors(model), path, metadata={"format": "pt"})
