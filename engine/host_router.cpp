#include "engine/host_router.h"

#include <utility>

namespace moetune {
namespace {

std::int64_t bytes_of(const Tensor& tensor) { return tensor.elements() * element_bytes(tensor.type()); }

// A tensor of one dimension, or none.
OwnedTensor host_copy(Device& device, Device& memory, const Tensor& from) {
  if (from.empty()) return {};
  OwnedTensor made(memory, from.type(), {from.dim(0)});
  copy_to_host(device, from.data(), made.view().data(), bytes_of(from));
  return made;
}

Tensor first(const OwnedTensor& of, std::int64_t rows, std::int64_t columns) {
  return {of.view().data(), of.view().type(), {rows, columns}};
}

}  // namespace

HostRouter::HostRouter(Device& device, const ModelSpec& spec, const Weights& weights, std::int64_t tokens)
    : memory_(Cpu(1)),
      layers_(weights.layers.size()),
      x_(memory_, NumberType::f32, {tokens, spec.hidden}),
      normed_(memory_, NumberType::f32, {tokens, spec.hidden}),
      logits_(memory_, NumberType::f32, {tokens, spec.experts}),
      ids_(memory_, NumberType::i32, {tokens, spec.experts_per_token}),
      weights_(memory_, NumberType::f32, {tokens, spec.experts_per_token}),
      sequences_(memory_, NumberType::i32, {tokens}),
      positions_(memory_, NumberType::i32, {tokens}),
      table_(memory_, NumberType::i32, {spec.experts}) {
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const LayerWeights& from = weights.layers[i];
    if (from.router.empty()) continue;
    Layer& layer = layers_[i];
    layer.norm = host_copy(device, memory_, from.post_attention_norm);
    layer.matrix = Buffer(memory_, from.router.layout.bytes);
    copy_to_host(device, from.router.data, layer.matrix.data(), from.router.layout.bytes);
    layer.bias = host_copy(device, memory_, from.router_bias);
    layer.favour = host_copy(device, memory_, from.router_favour);
  }
}

std::span<const std::int32_t> HostRouter::route(Device& device, Cpu& host, const Router& op,
                                                const ChangeRoute& change, int layer) {
  const std::int64_t tokens = op.x.dim(0);
  const Layer& of = layers_[static_cast<std::size_t>(layer)];
  Router here = op;
  here.x = first(x_, tokens, op.x.dim(1));
  here.norm = of.norm.view();
  here.normed = first(normed_, tokens, op.x.dim(1));
  here.w.data = of.matrix.data();
  here.route.logits = first(logits_, tokens, op.route.logits.dim(1));
  here.route.bias = of.bias.view();
  here.route.ids = first(ids_, tokens, op.route.ids.dim(1));
  here.route.weights = first(weights_, tokens, op.route.ids.dim(1));
  const auto bring = [&](const Tensor& from, const Tensor& to) {
    copy_to_host(device, from.data(), to.data(), bytes_of(to));
  };
  bring(op.x, here.x);
  if (op.route.ids_are_given) bring(op.route.ids, here.route.ids);
  if (!op.synthetic.favour.empty()) {
    here.synthetic.favour = of.favour.view();
    here.synthetic.sequences = {sequences_.view().data(), NumberType::i32, {tokens}};
    here.synthetic.positions = {positions_.view().data(), NumberType::i32, {tokens}};
    bring(op.synthetic.sequences, here.synthetic.sequences);
    bring(op.synthetic.positions, here.synthetic.positions);
  }
  run(host, here);
  if (change.changes()) {
    ChangeRoute change_here = change;
    change_here.route = here.route;
    change_here.slot_of_expert = table_.view();
    change_here.replaced = &rerouted_;
    if (change.margin > 0.0) bring(change.slot_of_expert, table_.view());
    run(host, change_here);
  }
  const auto send = [&](const Tensor& from, const Tensor& to) {
    copy_to_device(device, from.data(), to.data(), bytes_of(from));
  };
  send(here.normed, op.normed);
  send(here.route.weights, op.route.weights);
  if (!op.route.ids_are_given) send(here.route.ids, op.route.ids);
  return {here.route.ids.i32(), static_cast<std::size_t>(here.route.ids.elements())};
}

}  // namespace moetune
