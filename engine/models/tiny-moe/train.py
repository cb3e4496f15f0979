#!/usr/bin/env python3
# Trains tiny-moe from random weights with transformers' own DeepseekV3ForCausalLM. Start at train().
# Load balancing is the architecture's own: after each step the selection bias of an expert that got more than its share
# of tokens goes down by BIAS_SPEED, of one that got less goes up. There is no auxiliary loss.
# Usage: train.py --data build/tiny-moe-data --out build/tiny-moe [--steps N] [--seconds-max S]
import argparse
import csv
import json
import lzma
import math
import pathlib
import time

import numpy
import torch

import dense_experts
import model_files

SEED = 20262
TOKENS_PER_STEP = 49_152
SHORT_CONTEXT, LONG_CONTEXT = 512, 4096  # bytes; 96 short windows or 12 long ones a step
# The last LONG_SHARE of the steps has long windows. The model is lost at positions it has never seen: the loss jumps from
# 1.2 to 3.2 bits per byte there, and most of those steps only bring it back (training_log.csv). Long windows in every fourth
# step from the start cost more than that: 1.50 bits per byte after 2,100 annealed steps, against 1.32 in step 2,000 here.
LONG_SHARE = 0.15
LEARNING_RATE, LEARNING_RATE_END = 3e-3, 6e-5
WARM_UP_STEPS = 200
WEIGHT_DECAY = 0.1                       # on matrices only
BETAS = (0.9, 0.95)
GRADIENT_NORM_MAX = 1.0
BIAS_SPEED = 0.001
BIAS_FREEZE_SHARE = 0.05                 # last share of the steps, in which the selection bias stands still
PROBE_STEPS = 100                        # the second so many are timed to see how many steps fit into --seconds-max
LOG_EVERY, VALIDATE_EVERY = 50, 500


def learning_rate(step, steps):
    """Linear warm-up, then a half cosine down to LEARNING_RATE_END."""
    warm_up = min(WARM_UP_STEPS, max(1, steps // 10))
    if step < warm_up:
        return LEARNING_RATE * (step + 1) / warm_up
    progress = (step - warm_up) / max(1, steps - warm_up)
    return LEARNING_RATE_END + (LEARNING_RATE - LEARNING_RATE_END) * 0.5 * (1 + math.cos(math.pi * progress))


class Windows:
    """Random windows of the training bytes, on the device, from a seeded generator."""

    def __init__(self, data, device):
        self.data = torch.from_numpy(numpy.frombuffer(data, numpy.uint8).copy()).to(device)
        self.random = torch.Generator(device).manual_seed(SEED)

    def next(self, context, tokens):
        """(tokens / context, context + 1) token ids."""
        start = torch.randint(len(self.data) - context, (tokens // context, 1), generator=self.random,
                              device=self.data.device)
        return self.data[start + torch.arange(context + 1, device=self.data.device)].long()


def loss_of(model, windows, device):
    """Mean next-byte cross-entropy in nats."""
    with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
        logits = model(input_ids=windows[:, :-1], use_cache=False).logits
    return torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), windows[:, 1:].flatten())


def update_balance(blocks, speed):
    """Move every selection bias against its expert's load; returns max load / mean load per block."""
    imbalance = []
    for block in blocks:
        # Not bincount: it would make the host wait for the device in every step.
        shape = (block.chosen.shape[0], block.experts.num_experts)
        load = torch.zeros(shape, device=block.chosen.device).scatter_(1, block.chosen, 1.0).sum(0)
        block.gate.e_score_correction_bias += speed * torch.sign(load.mean() - load)
        imbalance.append(load.max() / load.mean())
    return torch.stack(imbalance)


def validation_windows(path, device, count=96):
    data = torch.from_numpy(numpy.frombuffer(path.read_bytes(), numpy.uint8).copy()).long()
    start = torch.linspace(0, len(data) - SHORT_CONTEXT - 1, count).long().unsqueeze(1)
    return data[start + torch.arange(SHORT_CONTEXT + 1)].to(device)


def compiled_activation(config, tokens):
    """weighted_swiglu as one fused kernel each way; the plain function, said loudly, where the compiler does not work."""
    fused = torch.compile(dense_experts.weighted_swiglu, dynamic=False)
    shape = (tokens, config.n_routed_experts, 2, config.moe_intermediate_size)
    gate_up = torch.randn(shape, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    weights = torch.rand(shape[:2], device="cuda", requires_grad=True)
    try:
        with torch.autocast("cuda", torch.bfloat16):
            fused(gate_up, weights).sum().backward()
    except Exception as error:  # any failure of the compiler: training is only slower without it
        print(f"WARNING: torch.compile failed, the activation runs unfused: {error}", flush=True)
        return dense_experts.weighted_swiglu
    return fused


def train(data_folder, out, steps, seconds_max, tokens_per_step, device):
    torch.manual_seed(SEED)
    torch.set_float32_matmul_precision("high")
    torch.backends.cuda.enable_cudnn_sdp(False)  # it would plan anew for MLA's unequal key and value widths
    started = time.monotonic()
    windows = Windows(lzma.decompress((data_folder / "train.bin.xz").read_bytes()), device)
    validation = validation_windows(data_folder / "validation.bin", device, 96 if device == "cuda" else 2)
    model = model_files.new_model().to(device).train()
    activation = compiled_activation(model.config, tokens_per_step) if device == "cuda" else dense_experts.weighted_swiglu
    blocks = dense_experts.moe_blocks(dense_experts.use_dense_experts(model, activation))
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    vectors = [p for p in model.parameters() if p.ndim < 2]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": WEIGHT_DECAY}, {"params": vectors, "weight_decay": 0.0}],
        lr=LEARNING_RATE, betas=BETAS, fused=device == "cuda")
    parameters = sum(p.numel() for p in model.parameters())
    print(f"{parameters} parameters, {len(windows.data)} training bytes, set up in {time.monotonic() - started:.1f} s", flush=True)

    log = csv.writer((out / "training_log.csv").open("w", newline=""), lineterminator="\n")
    log.writerow(["step", "tokens", "seconds", "learning_rate", "train_bits_per_byte", "validation_bits_per_byte",
                  "gradient_norm", "max_over_mean_load_per_layer"])
    bits = 1 / math.log(2)
    losses, imbalances, probe_started, step = [], [], 0.0, 0
    training_started = time.monotonic()
    while step < steps:
        context = min(LONG_CONTEXT if step >= steps * (1 - LONG_SHARE) else SHORT_CONTEXT, tokens_per_step)
        rate = learning_rate(step, steps)
        for group in optimizer.param_groups:
            group["lr"] = rate
        loss = loss_of(model, windows.next(context, tokens_per_step), device)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), GRADIENT_NORM_MAX)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        speed = 0.0 if step >= steps * (1 - BIAS_FREEZE_SHARE) else BIAS_SPEED
        imbalances.append(update_balance(blocks, speed))
        losses.append(loss.detach())
        step += 1
        if seconds_max and step in (PROBE_STEPS, 2 * PROBE_STEPS):  # the first steps compile and warm up
            if device == "cuda":
                torch.cuda.synchronize()
            now = time.monotonic()
            if step == 2 * PROBE_STEPS:
                step_seconds = (now - probe_started) / PROBE_STEPS * (1 + 0.5 * LONG_SHARE)  # long ones cost more
                fitting = step + int((seconds_max - (now - training_started)) / step_seconds)
                print(f"{1000 * step_seconds:.1f} ms a step: {fitting} steps fit into {seconds_max} s", flush=True)
                if fitting < steps:
                    steps = max(fitting // 100 * 100, step + 1)
                    print(f"steps reduced to {steps}", flush=True)
            probe_started = now
        if step % LOG_EVERY == 0 or step == steps:
            if not torch.isfinite(norm):  # before a checkpoint could be overwritten with it
                raise SystemExit(f"step {step}: gradient norm {norm.item()}: training has diverged")
            validated = ""
            if step % VALIDATE_EVERY == 0 or step == steps:
                model.eval()
                with torch.no_grad():
                    validated = f"{loss_of(model, validation, device).item() * bits:.4f}"
                model.train()
                model_files.save_checkpoint(model, out / "model.safetensors")
            balance = torch.stack(imbalances).mean(0).tolist()
            row = [step, step * tokens_per_step, f"{time.monotonic() - training_started:.1f}", f"{rate:.6f}",
                   f"{torch.stack(losses).mean().item() * bits:.4f}", validated, f"{norm.item():.3f}",
                   " ".join(f"{value:.2f}" for value in balance)]
            log.writerow(row)
            if validated or step <= 4 * LOG_EVERY:
                print(*row, flush=True)
            losses, imbalances = [], []
    facts = {"seed": SEED, "steps": steps, "tokens_per_step": tokens_per_step, "parameters": parameters,
             "training_seconds": round(time.monotonic() - training_started, 1),
             "device": torch.cuda.get_device_name() if device == "cuda" else "cpu", "torch": torch.__version__,
             "tokens": steps * tokens_per_step, "training_bytes": len(windows.data)}
    (out / "training.json").write_text(json.dumps(facts, indent=2) + "\n")
    print(json.dumps(facts), flush=True)
    return model


def check_export(model, folder, tokens, device):
    """The written checkpoint, loaded by transformers' class with its own experts, must give the trained model's logits."""
    torch.set_float32_matmul_precision("highest")
    loaded = model_files.load_model(folder).to(device)
    with torch.no_grad():
        for name, value in model.state_dict().items():
            if not name.endswith("e_score_correction_bias"):
                value.copy_(value.bfloat16())  # what the file can hold
        difference = (loaded(input_ids=tokens).logits - model(input_ids=tokens).logits).abs().max().item()
    print(f"export: class and training module differ by at most {difference:.2e} in a logit")
    if not difference < 1e-3:
        raise SystemExit("the exported checkpoint is not the trained model")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path("build/tiny-moe-data"))
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/tiny-moe"))
    parser.add_argument("--steps", type=int, default=3600)
    parser.add_argument("--seconds-max", type=float, default=0, help="fewer steps if that many seconds are too short")
    parser.add_argument("--tokens-per-step", type=int, default=TOKENS_PER_STEP)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda" if torch.cuda.is_available() else "cpu")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    model = train(arguments.data, arguments.out, arguments.steps, arguments.seconds_max, arguments.tokens_per_step,
                  arguments.device)
    (arguments.out / "config.json").write_bytes((model_files.HERE / "config.json").read_bytes())
    text = (model_files.HERE / "calibration.txt").read_bytes()[:256]
    check_export(model.eval(), arguments.out, torch.tensor([list(text)], device=arguments.device), arguments.device)


if __name__ == "__main__":
    main()
