"""The small checkpoints of tests/golden: one transformers configuration each, with sizes that are multiples of nothing convenient.

Between them they cover: compressed and direct queries, expert groups, YaRN with and without mscale_all_dim, both rotary pairings,
biases, sliding windows, q/k norms, renormalised and plain top-k weights, dense layers by every rule, tied embeddings, f32, f16 and
bf16, shards, fused experts, and config.json in the spelling of transformers 4.
"""

from dataclasses import dataclass

from transformers import DeepseekV3Config, MixtralConfig, Qwen3MoeConfig


@dataclass
class Case:
    name: str
    config: object
    dtype: str  # of the weights on disk
    seed: int
    tokens: int = 60  # beyond the original context of the YaRN cases
    shards: str | None = None  # largest size of one shard, None: a single file
    fused: bool = False  # experts of a layer in two tensors, as transformers has them in memory
    old_spelling: bool = False  # config.json as transformers 4 and the hub write it


def deepseek_v3(**changes):
    values = dict(
        vocab_size=101, hidden_size=52, intermediate_size=60, moe_intermediate_size=12, num_hidden_layers=3,
        num_attention_heads=3, num_key_value_heads=3, kv_lora_rank=12, q_lora_rank=20, qk_nope_head_dim=10,
        qk_rope_head_dim=6, v_head_dim=14, n_routed_experts=15, n_shared_experts=2, num_experts_per_tok=4, n_group=3,
        topk_group=2, first_k_dense_replace=1, routed_scaling_factor=2.5, norm_topk_prob=True, num_mtp_layers=0,
        max_position_embeddings=128, rms_norm_eps=1e-5, bos_token_id=None, eos_token_id=None,
    )
    return DeepseekV3Config(**{**values, **changes})


def mixtral(**changes):
    values = dict(
        vocab_size=103, hidden_size=60, intermediate_size=36, num_hidden_layers=2, num_attention_heads=5,
        num_key_value_heads=1, num_local_experts=5, num_experts_per_tok=2, max_position_embeddings=128,
        sliding_window=None, bos_token_id=None, eos_token_id=None,
    )
    return MixtralConfig(**{**values, **changes})


def qwen3_moe(**changes):
    values = dict(
        vocab_size=101, hidden_size=52, intermediate_size=60, moe_intermediate_size=20, num_hidden_layers=3,
        num_attention_heads=6, num_key_value_heads=3, head_dim=14, num_experts=13, num_experts_per_tok=5,
        max_position_embeddings=128, norm_topk_prob=True, bos_token_id=None, eos_token_id=None,
    )
    return Qwen3MoeConfig(**{**values, **changes})


YARN_DEEPSEEK = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=32, beta_fast=8.0,
                     beta_slow=1.0, mscale=1.0, mscale_all_dim=0.7)
YARN_PLAIN = dict(rope_type="yarn", rope_theta=5000.0, factor=4.0, original_max_position_embeddings=32)

CASES = [
    Case("deepseek_v3_yarn", deepseek_v3(rope_parameters=YARN_DEEPSEEK), "bfloat16", seed=14, old_spelling=True),
    Case("deepseek_v3_direct_q", deepseek_v3(
        q_lora_rank=None, n_routed_experts=13, n_group=1, topk_group=1, num_experts_per_tok=3, n_shared_experts=1,
        first_k_dense_replace=0, num_hidden_layers=2, num_attention_heads=5, num_key_value_heads=5, qk_nope_head_dim=7,
        v_head_dim=9, moe_intermediate_size=12, rope_interleave=False, norm_topk_prob=False, attention_bias=True,
        tie_word_embeddings=True, routed_scaling_factor=1.3), "float32", seed=13),
    Case("mixtral", mixtral(), "float16", seed=21),
    Case("mixtral_window_fused", mixtral(
        head_dim=10, num_attention_heads=7, num_key_value_heads=7, sliding_window=9, num_local_experts=7,
        num_experts_per_tok=3, intermediate_size=20, tie_word_embeddings=True), "bfloat16", seed=22, fused=True),
    Case("qwen3_moe_shards", qwen3_moe(mlp_only_layers=[0], tie_word_embeddings=True), "bfloat16", seed=31, shards="100KB"),
    Case("qwen3_moe_yarn", qwen3_moe(
        decoder_sparse_step=2, norm_topk_prob=False, num_hidden_layers=4, num_experts=5, num_experts_per_tok=3,
        num_attention_heads=3, num_key_value_heads=1, attention_bias=True, rope_parameters=YARN_PLAIN), "float16", seed=32),
]
