// Any text as a config.json: either InputError or a spec whose numbers fit together.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "engine/config.h"
#include "engine/facts/error.h"
#include "engine/tensor_names.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const moetune::ModelSpec spec = moetune::parse_model_config(text, "config.json");
    require(spec.layers > 0 && spec.hidden > 0 && spec.vocabulary > 0 && spec.heads > 0 &&
            spec.max_context > 0);
    require(spec.moe_layers.size() == static_cast<std::size_t>(spec.layers) && spec.moe_layer_count() > 0);
    require(spec.experts_per_token >= 1 && spec.experts_per_token <= spec.experts && spec.expert_inner > 0);
    require(spec.experts % spec.expert_groups == 0 && spec.kept_groups <= spec.expert_groups);
    require(spec.rope.dim > 0 && spec.rope.dim % 2 == 0);
    require(spec.attention == moetune::AttentionKind::mla || spec.heads % spec.kv_heads == 0);
    for (const int layer : {0, spec.layers - 1}) {
      const auto tensors = moetune::layer_tensors(spec, layer);
      require(tensors.o.exists() && tensors.o.shape.size() == 2 && tensors.o.shape[1] > 0);
      require(tensors.router.exists() != tensors.dense_gate.exists());
    }
  } catch (const moetune::InputError&) {
  }
  return 0;
}
