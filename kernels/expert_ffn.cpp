// Start at run(ExpertFfn): the tokens' choices are sorted by expert, so that each expert's weights are read
// once for all of its tokens; then gate and up, then down, each spread over (expert, block of rows).
#include "kernels/expert_ffn.h"

#include <algorithm>
#include <cassert>
#include <vector>

#include "kernels/grain.h"
#include "kernels/simd/dot_rows.h"
#include "kernels/simd/vector_math.h"

namespace moetune {
namespace {

constexpr std::int64_t kBlockRows = 32;  // the unit in which an expert's rows are handed to threads

// One (token, choice) whose expert is in this wave.
struct Assignment {
  std::int32_t slot;
  std::int64_t token;
  std::int64_t choice;
};

// Assignments of one expert: [first, last).
struct Group {
  std::int32_t slot;
  std::int64_t first;
  std::int64_t last;
};

// Everything a step needs besides its operands; kept by the calling thread, so that a step allocates nothing
// once warm.
struct Plan {
  std::vector<Assignment> assignments;  // sorted by slot, then by token and choice
  std::vector<Group> groups;
  std::vector<float> gate;      // (assignments, inner), later the activated values
  std::vector<float> up;        // (assignments, inner)
  std::vector<const float*> x;  // one pointer per assignment, likewise below
  std::vector<float*> gate_rows;
  std::vector<float*> up_rows;
  std::vector<float*> result_rows;

  void make(const ExpertFfn& op) {
    assignments.clear();
    for (std::int64_t token = 0; token < op.ids.dim(0); ++token)
      for (std::int64_t choice = 0; choice < op.ids.dim(1); ++choice) {
        const std::int32_t expert = op.ids.i32()[token * op.ids.stride(0) + choice];
        if (expert < 0) continue;
        assert(expert < op.slot_of_expert.dim(0));
        const std::int32_t slot = op.slot_of_expert.i32()[expert];
        if (slot >= 0) assignments.push_back({slot, token, choice});
      }
    std::stable_sort(assignments.begin(), assignments.end(),
                     [](const Assignment& a, const Assignment& b) { return a.slot < b.slot; });
    groups.clear();
    for (std::size_t i = 0; i < assignments.size(); ++i) {
      const auto index = static_cast<std::int64_t>(i);
      if (groups.empty() || groups.back().slot != assignments[i].slot)
        groups.push_back({assignments[i].slot, index, index});
      groups.back().last = index + 1;
    }
    point_rows(op);
  }

 private:
  void point_rows(const ExpertFfn& op) {
    const auto inner = static_cast<std::size_t>(op.layout.gate.out);
    gate.resize(assignments.size() * inner);
    up.resize(assignments.size() * inner);
    x.clear();
    gate_rows.clear();
    up_rows.clear();
    result_rows.clear();
    for (std::size_t i = 0; i < assignments.size(); ++i) {
      const Assignment& one = assignments[i];
      x.push_back(op.x.f32() + one.token * op.x.stride(0));
      gate_rows.push_back(gate.data() + i * inner);
      up_rows.push_back(up.data() + i * inner);
      result_rows.push_back(op.rows.f32() + one.token * op.rows.stride(0) + one.choice * op.rows.stride(1));
    }
  }
};

// Calls body(group, row_begin, row_end) for all rows of all groups' matrices.
template <class Body>
void for_rows_of_groups(Cpu& cpu, const std::vector<Group>& groups, std::int64_t rows,
                        std::int64_t work_per_row, const Body& body) {
  const std::int64_t blocks = (rows + kBlockRows - 1) / kBlockRows;
  const auto count = static_cast<std::int64_t>(groups.size()) * blocks;
  cpu.pool().parallel_for(count, grain_for(kBlockRows * work_per_row),
                          [&](std::int64_t begin, std::int64_t end) {
                            while (begin < end) {
                              const std::int64_t group = begin / blocks;
                              const std::int64_t stop = std::min(end, (group + 1) * blocks);
                              const std::int64_t first_block = begin - group * blocks;
                              body(groups[static_cast<std::size_t>(group)], first_block * kBlockRows,
                                   std::min(rows, (first_block + stop - begin) * kBlockRows));
                              begin = stop;
                            }
                          });
}

}  // namespace

void run(Cpu& cpu, const ExpertFfn& op) {
  const std::int64_t hidden = op.layout.gate.in;
  const std::int64_t inner = op.layout.gate.out;
  assert(op.x.dim(1) == hidden && op.ids.dim(0) == op.x.dim(0));
  assert(op.rows.dim(0) == op.x.dim(0) && op.rows.dim(1) == op.ids.dim(1) && op.rows.dim(2) == hidden);
  thread_local Plan plan_of_this_thread;
  Plan& plan = plan_of_this_thread;  // the lambdas below run on other threads, which have plans of their own
  plan.make(op);
  if (plan.groups.empty()) return;

  const auto assignments = static_cast<std::int64_t>(plan.assignments.size());
  const std::int64_t tokens_per_group = assignments / static_cast<std::int64_t>(plan.groups.size());
  const auto expert = [&](const Group& group) {
    return static_cast<const std::byte*>(op.slots) + group.slot * op.layout.bytes;
  };
  for_rows_of_groups(cpu, plan.groups, inner, 2 * hidden * tokens_per_group,
                     [&](const Group& group, std::int64_t row_begin, std::int64_t row_end) {
                       DotRows work{.row_begin = row_begin, .row_end = row_end};
                       work.tokens = group.last - group.first;
                       work.x = plan.x.data() + group.first;
                       work.w = op.layout.gate_of(expert(group));
                       work.y = plan.gate_rows.data() + group.first;
                       dot_rows(work);
                       work.w = op.layout.up_of(expert(group));
                       work.y = plan.up_rows.data() + group.first;
                       dot_rows(work);
                       for (std::int64_t i = group.first; i < group.last; ++i) {
                         float* gate = plan.gate_rows[static_cast<std::size_t>(i)] + row_begin;
                         const float* up = plan.up_rows[static_cast<std::size_t>(i)] + row_begin;
                         swiglu_row(gate, up, gate, row_end - row_begin);
                       }
                     });
  if (op.after_gate_up != nullptr) (*op.after_gate_up)();
  for_rows_of_groups(cpu, plan.groups, hidden, inner * tokens_per_group,
                     [&](const Group& group, std::int64_t row_begin, std::int64_t row_end) {
                       DotRows work{.row_begin = row_begin, .row_end = row_end};
                       work.tokens = group.last - group.first;
                       work.w = op.layout.down_of(expert(group));
                       work.x = plan.gate_rows.data() + group.first;
                       work.y = plan.result_rows.data() + group.first;
                       dot_rows(work);
                     });
}

void run(Cpu& cpu, const Combine& op) {
  const std::int64_t k = op.rows.dim(1);
  const std::int64_t hidden = op.rows.dim(2);
  assert(op.weights.dim(1) == k && op.y.dim(1) == hidden);
  cpu.pool().parallel_for(op.rows.dim(0), grain_for(k * hidden), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t token = begin; token < end; ++token) {
      float* y = op.y.f32() + token * op.y.stride(0);
      for (std::int64_t choice = 0; choice < k; ++choice) {
        const float weight = op.weights.f32()[token * op.weights.stride(0) + choice];
        if (weight == 0.0F) continue;  // the row of no expert was never written
        const float* row = op.rows.f32() + token * op.rows.stride(0) + choice * op.rows.stride(1);
        for (std::int64_t i = 0; i < hidden; ++i) y[i] += weight * row[i];
      }
    }
  });
}

void run(Cpu& cpu, const RoutedFfn& op) {
  run(cpu, op.ffn);
  run(cpu, Combine{.rows = op.ffn.rows, .weights = op.weights, .y = op.y});
}

void run(Cpu& cpu, const MoeFfn& op) {
  run(cpu, op.routed);
  if (op.before_shared != nullptr) (*op.before_shared)();
  run(cpu, op.shared);
}

}  // namespace moetune
