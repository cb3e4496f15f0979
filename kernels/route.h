// Route: from router logits to k experts and their weights per token.
//
// softmax: probabilities over all experts, keep the k largest; renormalised to sum 1 where the model says so.
// grouped_sigmoid_bias (DeepSeek-V3, arXiv 2412.19437): sigmoid scores; a bias is added for selection only;
// the experts form groups, a group's score is the sum of its two largest biased scores, only the best groups
// take part; weights are the unbiased scores, renormalised (+ 1e-20) and scaled. Ties go to the lower expert
// id.
// sqrt_softplus_bias (DeepSeek-V4): the same with sqrt(softplus(logit)) for scores.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/device.h"
#include "kernels/tensor.h"

namespace moetune {

enum class RouteRule : std::uint8_t { softmax, grouped_sigmoid_bias, sqrt_softplus_bias };

struct Route {
  Tensor logits;   // (tokens, experts) f32
  Tensor bias{};   // (experts) f32, or empty
  Tensor ids;      // (tokens, k) i32, best first; read where ids_are_given
  Tensor weights;  // (tokens, k) f32
  RouteRule rule = RouteRule::softmax;
  bool normalize = true;  // chosen weights sum to 1 before scaling
  float scale = 1.0F;     // routed_scaling_factor
  int groups = 1;
  int kept_groups = 1;
  bool ids_are_given =
      false;  // only the weights are wanted, of these different experts in this order; -1: none, weight 0
};
void run(Cpu& cpu, const Route& op);
void run(Cuda& cuda, const Route& op);

// The scores by which experts are chosen: with the bias, and -infinity outside the best groups. logits:
// (experts) of one token; of op its rule, bias and groups count.
void choice_scores(const Route& op, std::span<const float> logits, std::span<float> scores);

}  // namespace moetune
