#!/usr/bin/env python3
"""What reports/h200/summary.py makes of invented data: shares of the floor are worked out by hand here."""
import importlib.util
import json
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.dont_write_bytecode = True
SPEC = importlib.util.spec_from_file_location("summary", ROOT / "reports" / "h200" / "summary.py")
summary = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(summary)

STEPS = "{}: decode {} ms per step, prefill of 512 tokens 9.00 ms, device 60000.0 MiB, cache hits 100.0 %\n"


class Summary(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.addCleanup(setattr, summary, "HERE", summary.HERE)
        summary.HERE = pathlib.Path(self.folder.name)

    def write(self, name, content):
        (summary.HERE / name).write_text(content if isinstance(content, str) else json.dumps(content))

    def measured(self, name, **metrics):
        self.write(f"measure-{name}.json", {"metrics": {key: {"value": value} for key, value in metrics.items()}})

    # 48 layers of 860 MB and a head of 1,720 MB: 43 GB, 10 ms at 4,300 GB/s. One token reads less, and must not be taken.
    def ops(self):
        self.write("ops-qwen3-30b-a3b.json", {"results": [
            {"op": "layer", "tokens": 1, "bytes": 1e6}, {"op": "head", "tokens": 1, "bytes": 1e6},
            {"op": "layer", "tokens": 32, "bytes": 860e6}, {"op": "head", "tokens": 32, "bytes": 1720e6}]})

    def batch(self):
        return "".join(summary.batch_rows())

    def test_a_step_is_what_decode_bench_measured(self):
        self.ops()
        self.write("steps.txt", STEPS.format("qwen3-30b-a3b, 1 sequence", 2.5) + STEPS.format(summary.BATCH, 12.5))
        self.assertEqual(self.batch(), "32 sequences of qwen3-30b-a3b, bf16, 512 to 576 tokens of context: 12.50 ms a step; "
                                       "floor 10.00 ms, 80 %.")

    def test_steps_of_something_else_are_refused(self):
        self.ops()
        self.write("steps.txt", STEPS.format("qwen3-30b-a3b, 16 sequences", 12.5))
        with self.assertRaisesRegex(SystemExit, "steps.txt: no line 'qwen3-30b-a3b, 32 sequences"):
            self.batch()

    def test_nothing_is_said_of_what_was_not_measured(self):
        self.assertEqual(self.batch(), "")
        self.ops()
        self.assertEqual(self.batch(), "")
        self.assertEqual(list(summary.prompt_rows()), [])

    # Mixtral: 32 layers of 41.9 M (attention), 2 experts of 176.2 M and a router of 33 k, and a head of 131.1 M: 12.749 G weights.
    def test_a_token_in_twice_the_floor_is_half_of_it(self):
        floor = summary.floor_ms("mixtral-8x7b", "bf16")
        self.assertAlmostEqual(floor, 12.749e9 * 2 / 4300e6, places=3)
        self.measured("mixtral-8x7b", tpot_ms=2 * floor)
        self.assertIn(f"| mixtral-8x7b, bf16 | {2 * floor:.3f} | {floor:.2f} | 50 % |", list(summary.decode_rows()))


if __name__ == "__main__":
    unittest.main()
