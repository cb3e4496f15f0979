# The figures of README.md, generated from evaluation.json, training.json and corpus.json. Start at figures().
# They stand between two marker lines, so that write() and check() touch nothing else.
import sys

BEGIN, END = "<!-- figures: begin (written by evaluate.py --write README.md) -->", "<!-- figures: end -->"


def figures(facts):
    """The Markdown between the markers."""
    evaluation, training, corpus = facts["evaluation"], facts["training"], facts["corpus"]
    kinds = ", ".join(f"{kind} {bits:.2f}" for kind, bits in evaluation["bits_per_byte_by_kind"].items())
    contexts = ", ".join(f"{bits:.3f} at {context}" for context, bits in evaluation["bits_per_byte_by_context"].items())
    lines = [
        f"- {training['parameters']:,} parameters, trained {training['steps']:,} steps of {training['tokens_per_step']:,} bytes"
        f" ({training['training_seconds']:.0f} s on one {training['device']}) on {corpus['train_bytes']:,} bytes of text.",
        f"- Held out: **{evaluation['bits_per_byte']:.3f} bits per byte** ({evaluation['scored_bytes']:,} scored bytes of"
        f" calibration.txt, windows of {evaluation['context']:,}); by kind: {kinds}.",
        f"- By window length: {contexts}.",
        f"- Order-3 byte model with Witten-Bell interpolation, counted on the same training text:"
        f" {evaluation['order3_bits_per_byte']:.3f} bits per byte; this model is {evaluation['below_order3_percent']:.1f} % below it.",
        f"- Same expert at the next token: {evaluation['same_expert_over_chance_mean']:.2f} times chance on average.",
        "",
        "| MoE layer | same expert at next token | chance | ratio | largest load / mean | smallest load / mean |",
        "|---|---|---|---|---|---|",
    ]
    for index, layer in enumerate(evaluation["routing"], start=1):
        lines.append(f"| {index} | {100 * layer['same_expert_next_token']:.1f} % | {100 * layer['chance']:.1f} % |"
                     f" {layer['ratio']:.2f} | {layer['max_over_mean_load']:.2f} | {layer['min_over_mean_load']:.2f} |")
    lines += ["", "| configuration | KL mean, nats | top-1 agreement | bits per byte | strictest gate passed |", "|---|---|---|---|---|"]
    for name, row in evaluation["configurations"].items():
        lines.append(f"| {name} | {row['kl_mean']:.5f} | {100 * row['top1_agreement']:.2f} % | {row['bits_per_byte']:.3f} | {row['gate']} |")
    return "\n".join(lines)


def _parts(path):
    text = path.read_text()
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        sys.exit(f"{path}: the two marker lines of the figures must stand there once each")
    before, rest = text.split(BEGIN)
    between, after = rest.split(END)
    return before, between, after


def write(path, facts):
    """Replace the figures in `path`; returns the exit code."""
    before, _, after = _parts(path)
    path.write_text(before + BEGIN + "\n" + figures(facts) + "\n" + END + after)
    return 0


def check(path, facts):
    """0 when the figures in `path` are those of the JSON files, else 1 after naming the first line that differs."""
    found, wanted = _parts(path)[1].strip("\n").split("\n"), figures(facts).split("\n")
    for have, want in zip(found + [""] * len(wanted), wanted + [""] * len(found)):
        if have != want:
            print(f"{path}: has  {have}\n{path}: want {want}", file=sys.stderr)
            return 1
    return 0
