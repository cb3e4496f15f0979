// Start at the constructor: config, files, then every tensor the spec needs is looked at once, so that
// nothing can be missing later, in the middle of a run.
#include "engine/checkpoint.h"

#include <algorithm>
#include <cassert>
#include <filesystem>
#include <mutex>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/checkpoint_hash.h"
#include "engine/config.h"
#include "engine/data_files.h"
#include "engine/engine.h"
#include "engine/facts/error.h"
#include "engine/finite.h"
#include "engine/mapped_file.h"
#include "engine/presets.h"
#include "engine/tensor_files.h"
#include "engine/tensor_names.h"

namespace moetune {
namespace {

constexpr std::int64_t kLargestConfig = 16'000'000;

bool is_float(NumberType type) {
  return type == NumberType::f32 || type == NumberType::f16 || type == NumberType::bf16;
}

Tensor view_of(const std::byte* data, NumberType type, const std::vector<std::int64_t>& shape) {
  auto* const start =
      const_cast<std::byte*>(data);  // read-only by contract: the mapping is, and a write would fault
  switch (shape.size()) {
    case 1:
      return Tensor(start, type, {shape[0]});
    case 2:
      return Tensor(start, type, {shape[0], shape[1]});
    case 3:
      return Tensor(start, type, {shape[0], shape[1], shape[2]});
    default:
      return Tensor(start, type, {shape[0], shape[1], shape[2], shape[3]});
  }
}

// transformers calls Mixtral's routed half mlp in memory; a state dict saved as it is has that name. One name
// from here on.
void use_hub_names(const ModelSpec& spec, TensorFiles& files) {
  if (spec.architecture != "MixtralForCausalLM") return;
  constexpr std::string_view kInMemory = ".mlp.";
  std::map<std::string, StoredTensor> renamed;
  for (auto& [name, stored] : files.tensors) {
    std::string hub_name = name;
    const std::size_t at = hub_name.find(kInMemory);
    if (at != std::string::npos) hub_name.replace(at, kInMemory.size(), ".block_sparse_moe.");
    if (!renamed.emplace(hub_name, stored).second) {
      throw InputError(stored.file->path() + ": " + hub_name, "is there a second time as " + name,
                       "one of the two");
    }
  }
  files.tensors = std::move(renamed);
}

}  // namespace

struct Checkpoint::Impl {
  std::string directory;
  std::uint64_t seed = 0;
  ModelSpec spec;
  TensorFiles files;
  std::vector<bool> fused;  // per layer: are its routed experts stored in two tensors?

  // A view must be aligned to its elements; the rare tensor that is not is copied when it is first asked for.
  mutable std::mutex copies_mutex;
  mutable std::map<std::string, std::vector<std::byte>> copies;

  std::string where(const std::string& name) const {
    const auto found = files.tensors.find(name);
    return (found == files.tensors.end() ? directory : found->second.file->path()) + ": " + name;
  }

  const StoredTensor& stored(const std::string& name) const {
    const auto found = files.tensors.find(name);
    if (found != files.tensors.end()) return found->second;
    const auto unreadable = files.unreadable.find(name);
    if (unreadable != files.unreadable.end())
      throw InputError(where(name), unreadable->second, "F32, F16, BF16");
    throw InputError(where(name), "missing", "a tensor of this name, which " + spec.architecture + " needs");
  }

  const StoredTensor& checked(const std::string& name, std::span<const std::int64_t> shape) const {
    const StoredTensor& tensor = stored(name);
    if (!std::ranges::equal(tensor.entry.shape, shape)) {
      throw InputError(where(name), fmt::format("shape [{}]", fmt::join(tensor.entry.shape, ", ")),
                       fmt::format("[{}], from config.json", fmt::join(shape, ", ")));
    }
    if (!is_float(tensor.entry.type))
      throw InputError(where(name), fmt::format("type {}", name_of(tensor.entry.type)), "f32, f16, bf16");
    return tensor;
  }

  const std::byte* data(const std::string& name, const StoredTensor& tensor) const {
    const std::byte* const mapped = tensor.file->data() + tensor.entry.begin;
    if (tensor.entry.begin % element_bytes(tensor.entry.type) == 0) return mapped;
    const std::scoped_lock lock(copies_mutex);
    const auto [copy, is_new] = copies.try_emplace(name);
    if (is_new) {
      copy->second.resize(static_cast<std::size_t>(tensor.entry.bytes));
      tensor.file->read(tensor.entry.begin, copy->second);
    }
    return copy->second.data();
  }

  // A part of a stored tensor as a matrix (out, in), `first` elements after its start.
  Matrix matrix(const std::string& name, std::int64_t first, std::int64_t out, std::int64_t in) const {
    const StoredTensor& tensor = stored(name);
    const std::int64_t width = element_bytes(tensor.entry.type);
    Matrix result;
    result.view = view_of(data(name, tensor) + first * width, tensor.entry.type, {out, in});
    result.extent = {tensor.file->path(), tensor.entry.begin + first * width, out * in * width};
    return result;
  }

  template <class Visit>
  void for_each_needed(const Visit& visit) const {
    const ModelTensors model = model_tensors(spec);
    for (const NamedTensor* tensor : {&model.embedding, &model.final_norm, &model.head}) visit(*tensor);
    for (int layer = 0; layer < spec.layers; ++layer) {
      const LayerTensors l = layer_tensors(spec, layer);
      for (const NamedTensor* tensor : {&l.input_norm,  &l.post_attention_norm,
                                        &l.q,           &l.k,
                                        &l.v,           &l.q_bias,
                                        &l.k_bias,      &l.v_bias,
                                        &l.q_norm,      &l.k_norm,
                                        &l.q_a,         &l.q_a_bias,
                                        &l.q_a_norm,    &l.q_b,
                                        &l.kv_a,        &l.kv_a_bias,
                                        &l.kv_a_norm,   &l.kv_b,
                                        &l.o,           &l.o_bias,
                                        &l.dense_gate,  &l.dense_up,
                                        &l.dense_down,  &l.router,
                                        &l.router_bias, &l.shared_gate,
                                        &l.shared_up,   &l.shared_down}) {
        if (tensor->exists()) visit(*tensor);
      }
      if (spec.moe_layers[static_cast<std::size_t>(layer)]) for_each_expert_tensor(layer, visit);
    }
  }

  template <class Visit>
  void for_each_expert_tensor(int layer, const Visit& visit) const {
    if (fused[static_cast<std::size_t>(layer)]) {
      const FusedExpertTensors tensors = fused_expert_tensors(spec, layer);
      visit(tensors.gate_up);
      visit(tensors.down);
      return;
    }
    for (int expert = 0; expert < spec.experts; ++expert) {
      const ExpertTensors tensors = expert_tensors(spec, layer, expert);
      for (const NamedTensor* tensor : {&tensors.gate, &tensors.up, &tensors.down}) visit(*tensor);
    }
  }

  void find_fused_layers() {
    for (int layer = 0; layer < spec.layers; ++layer) {
      fused.push_back(spec.moe_layers[static_cast<std::size_t>(layer)] &&
                      files.tensors.contains(fused_expert_tensors(spec, layer).gate_up.name));
    }
  }

  // What the experts are stored as is what "as the checkpoint ships" means; the config's dtype may say
  // something else.
  void take_type_from_experts() {
    std::optional<NumberType> type;
    for (int layer = 0; layer < spec.layers; ++layer) {
      if (!spec.moe_layers[static_cast<std::size_t>(layer)]) continue;
      for_each_expert_tensor(layer, [&](const NamedTensor& tensor) {
        const NumberType stored_type = stored(tensor.name).entry.type;
        if (type.value_or(stored_type) != stored_type) {
          throw InputError(where(tensor.name),
                           fmt::format("type {}, other experts are {}", name_of(stored_type), name_of(*type)),
                           "one type for all routed experts");
        }
        type = stored_type;
      });
    }
    spec.checkpoint_type = type.value_or(spec.checkpoint_type);
  }
};

Checkpoint::Checkpoint(const std::string& directory) : impl_(std::make_unique<Impl>()) {
  namespace fs = std::filesystem;
  impl_->directory = directory;
  std::error_code unreadable;  // counts as not there
  if (!fs::is_directory(directory, unreadable))
    throw InputError(directory, "no such directory", "a checkpoint directory with config.json");
  const std::string config_path = directory + "/config.json";
  const std::string config_text = read_text_file(config_path, kLargestConfig);
  impl_->spec = parse_model_config(config_text, config_path);
  impl_->spec.name = fs::canonical(directory).filename().string();
  impl_->files = open_tensor_files(directory);
  use_hub_names(impl_->spec, impl_->files);
  impl_->find_fused_layers();
  impl_->for_each_needed([&](const NamedTensor& tensor) { impl_->checked(tensor.name, tensor.shape); });
  impl_->take_type_from_experts();
  impl_->spec.content_hash = checkpoint_hash(config_text, impl_->files);
}

Checkpoint::Checkpoint(const Preset& preset) : impl_(std::make_unique<Impl>()) {
  impl_->spec = preset.spec;
  impl_->seed = preset.seed;
}

Checkpoint::~Checkpoint() = default;

const std::string& Checkpoint::directory() const { return impl_->directory; }
std::uint64_t Checkpoint::seed() const { return impl_->seed; }
const ModelSpec& Checkpoint::spec() const { return impl_->spec; }
bool Checkpoint::has(const std::string& tensor_name) const {
  return impl_->files.tensors.contains(tensor_name);
}

Tensor Checkpoint::tensor(const std::string& tensor_name) const {
  const StoredTensor& stored = impl_->stored(tensor_name);
  const std::size_t rank = stored.entry.shape.size();
  if (rank < 1 || rank > 4)
    throw InputError(impl_->where(tensor_name), fmt::format("{} dimensions", rank), "1 to 4");
  return view_of(impl_->data(tensor_name, stored), stored.entry.type, stored.entry.shape);
}

Tensor Checkpoint::tensor(const std::string& tensor_name, std::initializer_list<std::int64_t> shape) const {
  impl_->checked(tensor_name, std::span(shape.begin(), shape.size()));
  return tensor(tensor_name);
}

Checkpoint::Extent Checkpoint::extent(const std::string& tensor_name) const {
  const StoredTensor& stored = impl_->stored(tensor_name);
  return {stored.file->path(), stored.entry.begin, stored.entry.bytes};
}

Checkpoint::Expert Checkpoint::expert(int layer, int expert) const {
  const ModelSpec& spec = impl_->spec;
  assert(spec.moe_layers.at(static_cast<std::size_t>(layer)) && expert >= 0 && expert < spec.experts);
  const std::int64_t inner = spec.expert_inner;
  const std::int64_t hidden = spec.hidden;
  if (impl_->fused.at(static_cast<std::size_t>(layer))) {
    const FusedExpertTensors names = fused_expert_tensors(spec, layer);
    const std::int64_t matrix = inner * hidden;  // elements
    return {impl_->matrix(names.gate_up.name, matrix * 2 * expert, inner, hidden),
            impl_->matrix(names.gate_up.name, matrix * (2 * expert + 1), inner, hidden),
            impl_->matrix(names.down.name, matrix * expert, hidden, inner)};
  }
  const ExpertTensors names = expert_tensors(spec, layer, expert);
  return {impl_->matrix(names.gate.name, 0, inner, hidden), impl_->matrix(names.up.name, 0, inner, hidden),
          impl_->matrix(names.down.name, 0, hidden, inner)};
}

void Checkpoint::check_finite() const {
  if (impl_->spec.is_synthetic) return;
  impl_->for_each_needed([&](const NamedTensor& tensor) {
    const SafetensorsEntry& entry = impl_->stored(tensor.name).entry;
    impl_->stored(tensor.name)
        .file->read_in_pieces(
            entry.begin, entry.bytes, [&](std::span<const std::byte> piece, std::int64_t done) {
              const std::int64_t bad = first_not_finite(piece, entry.type);
              if (bad < 0) return;
              const std::int64_t element = done / element_bytes(entry.type) + bad;
              throw InputError(impl_->where(tensor.name),
                               fmt::format("element {} is NaN or infinite", element), "finite weights");
            });
  });
}

std::shared_ptr<const Checkpoint> open_checkpoint(const std::string& model) {
  if (names_preset(model)) return std::make_shared<const Checkpoint>(open_preset(model));
  return std::make_shared<const Checkpoint>(model_directory(model));
}

const ModelSpec& spec_of(const Checkpoint& checkpoint) { return checkpoint.spec(); }

}  // namespace moetune
