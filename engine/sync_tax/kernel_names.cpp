#include "engine/sync_tax/kernel_names.h"

#include <algorithm>
#include <array>

namespace moetune {
namespace {

constexpr KernelClass collective{Activity::collective, Row::other};
constexpr KernelClass router{Activity::compute, Row::router};
constexpr KernelClass gate_up{Activity::compute, Row::gate_up};
constexpr KernelClass down_combine{Activity::compute, Row::down_combine};
constexpr KernelClass attention{Activity::compute, Row::attention};
constexpr KernelClass head{Activity::compute, Row::head};
constexpr KernelClass loading{Activity::expert_copy, Row::other};
constexpr KernelClass other{Activity::compute, Row::other};

constexpr std::string_view nccl = "NCCL src/device";
constexpr std::string_view vllm = "vLLM csrc, vllm/model_executor/layers/fused_moe";
constexpr std::string_view sglang = "SGLang sgl-kernel/csrc/moe";
constexpr std::string_view llama = "llama.cpp ggml/src/ggml-cuda";
constexpr std::string_view deepep = "DeepEP csrc/kernels";
constexpr std::string_view flash = "FlashAttention, FlashInfer, FlashMLA";
constexpr std::string_view deepgemm = "DeepGEMM";
constexpr std::string_view cublas = "cuBLAS, CUTLASS";
constexpr std::string_view torch = "PyTorch aten/src/ATen/native/cuda";
constexpr std::string_view own = "moetune kernels/*.cu";

// A fused kernel that multiplies gate, up or down alike (fused_moe_kernel, grouped products) cannot be told
// apart by its name: it counts as gate_up.
constexpr std::array table = {
    KernelName{"", "ncclDevKernel", collective, nccl},
    KernelName{"", "ncclKernel", collective, nccl},
    KernelName{"", "cross_device_reduce", collective, vllm},
    KernelName{"", "allreduce", collective, flash},
    KernelName{"", "all_reduce", collective, vllm},
    KernelName{"", "multimem_all", collective, torch},
    KernelName{"deep_ep", "dispatch", collective, deepep},
    KernelName{"deep_ep", "combine", collective, deepep},

    KernelName{"", "topkGating", router, vllm},
    KernelName{"", "topk_softmax", router, vllm},
    KernelName{"", "grouped_topk", router, vllm},
    KernelName{"", "moe_align_block_size", router, vllm},
    KernelName{"", "count_and_sort_expert_tokens", router, vllm},
    KernelName{"", "moe_fused_gate", router, sglang},
    KernelName{"", "biased_grouped_topk", router, sglang},
    KernelName{"", "topk_moe", router, llama},
    KernelName{"", "mm_ids_helper", router, llama},

    KernelName{"", "moe_sum", down_combine, vllm},
    KernelName{"", "finalizeMoeRouting", down_combine, "TensorRT-LLM cpp/tensorrt_llm/kernels"},
    KernelName{"", "fused_moe", gate_up, vllm},
    KernelName{"", "marlin_moe", gate_up, vllm},
    KernelName{"", "act_and_mul", gate_up, vllm},
    KernelName{"", "silu_and_mul", gate_up, sglang},
    KernelName{"", "grouped_gemm", gate_up, deepgemm},
    KernelName{"", "mul_mat_id", gate_up, llama},

    KernelName{"", "flash_fwd", attention, flash},
    KernelName{"", "flash_attn", attention, llama},
    KernelName{"", "flash::", attention, flash},
    KernelName{"", "flashinfer::", attention, flash},
    KernelName{"", "WithPagedKVCache", attention, flash},
    KernelName{"", "paged_attention", attention, vllm},
    KernelName{"", "reshape_and_cache", attention, vllm},
    KernelName{"", "concat_and_cache_mla", attention, vllm},
    KernelName{"", "rotary_embedding", attention, vllm},
    KernelName{"", "rope_", attention, llama},
    KernelName{"", "fmha", attention, flash},

    KernelName{"moetune", "::router", router, own},
    KernelName{"moetune", "::route", router, own},
    KernelName{"moetune", "::synthetic_logits", router, own},
    KernelName{"moetune", "::gate_up", gate_up, own},
    KernelName{"moetune", "::down", down_combine, own},
    KernelName{"moetune", "::combine", down_combine, own},
    KernelName{"moetune", "::attend", attention, own},
    KernelName{"moetune", "::place_heads", attention, own},
    KernelName{"moetune", "::sample", head, own},
    KernelName{"moetune", "::look_up", loading, own},
    KernelName{"moetune", "::fetch", loading, own},
    KernelName{"moetune", "::", other, own},

    KernelName{"", "sampling", head, flash},
    KernelName{"", "argmax", head, torch},
    KernelName{"", "rms_norm", other, vllm},
    KernelName{"", "layernorm", other, vllm},
    KernelName{"", "mul_mat", other, llama},
    KernelName{"", "deep_gemm", other, deepgemm},
    KernelName{"", "nvjet", other, cublas},
    KernelName{"", "gemm", other, cublas},
    KernelName{"", "gemv", other, cublas},
    KernelName{"", "cutlass", other, cublas},
    KernelName{"", "splitKreduce", other, cublas},
    KernelName{"", "elementwise", other, torch},
    KernelName{"", "at::native", other, torch},
};

bool occurs(std::string_view part, std::string_view name) {
  return name.find(part) != std::string_view::npos;
}

}  // namespace

std::span<const KernelName> kernel_names() { return table; }

std::optional<KernelClass> class_of_kernel(std::string_view name) {
  const auto* const found = std::ranges::find_if(
      table, [&](const KernelName& one) { return occurs(one.scope, name) && occurs(one.pattern, name); });
  return found == table.end() ? std::nullopt : std::optional(found->is);
}

}  // namespace moetune
