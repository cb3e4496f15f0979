#include "tuner/searchers/nsga2.h"

#include <algorithm>

#include "tuner/pareto.h"
#include "tuner/searchers/variation.h"

namespace moetune {
namespace {
// A child that was tried already costs nothing but this; then a random configuration takes its place.
constexpr int attempts_per_child = 16;
}  // namespace

Nsga2Searcher::Nsga2Searcher(const SearcherInput& input)
    : table_(input),
      design_(input),
      objectives_(input.objectives.begin(), input.objectives.end()),
      seed_(input.seed) {}

std::optional<Configuration> Nsga2Searcher::ask() {
  if (proposals_.empty() && table_.open_count() > 0) {
    if (told_.size() < 2) {
      first_generation();
    } else {
      breed();
    }
    ++generation_;
  }
  if (proposals_.empty()) return std::nullopt;
  const std::size_t position = proposals_.front();
  proposals_.pop_front();
  return table_.configuration(position);
}

void Nsga2Searcher::tell(const Trial& trial) {
  const auto position = table_.find(trial.configuration);
  if (!position) return;  // a default configuration between the declared values: nothing to inherit from it
  table_.take(*position);
  design_.tell(trial);
  // It may wait in the queue still: told by somebody else, it must not be asked any more.
  proposals_.erase(std::remove(proposals_.begin(), proposals_.end(), *position), proposals_.end());
  told_[*position] = values_of(trial, objectives_).value_or(std::vector<double>{});
}

void Nsga2Searcher::propose(std::size_t position) {
  table_.take(position);
  proposals_.push_back(position);
}

void Nsga2Searcher::first_generation() {
  while (proposals_.size() < population) {
    const auto configuration = design_.ask();
    if (!configuration) return;
    const auto position = table_.find(*configuration);
    if (position && table_.is_open(*position)) propose(*position);
  }
}

std::vector<Nsga2Searcher::Individual> Nsga2Searcher::parents() const {
  std::vector<std::vector<double>> points;
  std::vector<Individual> all;
  for (const auto& [position, values] : told_) {
    if (values.empty()) continue;
    points.push_back(values);
    all.push_back({table_.levels(position)});
  }
  const std::vector<int> ranks = non_domination_ranks(points);
  int last_rank = -1;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    all[i].rank = ranks[i];
    last_rank = std::max(last_rank, ranks[i]);
  }
  for (int rank = 0; rank <= last_rank; ++rank) {
    std::vector<std::size_t> front;
    for (std::size_t i = 0; i < ranks.size(); ++i)
      if (ranks[i] == rank) front.push_back(i);
    const std::vector<double> crowding = crowding_distances(points, front);
    for (std::size_t i = 0; i < front.size(); ++i) all[front[i]].crowding = crowding[i];
  }
  for (const auto& [position, values] : told_)
    if (values.empty()) all.push_back({table_.levels(position), last_rank + 1, 0.0});

  std::stable_sort(all.begin(), all.end(), [](const Individual& a, const Individual& b) {
    return a.rank != b.rank ? a.rank < b.rank : a.crowding > b.crowding;
  });
  if (all.size() > population) all.resize(population);
  return all;
}

void Nsga2Searcher::breed() {
  const std::vector<Individual> pool = parents();
  RngSequence selection(CounterRng(seed_, RngStage::nsga2_selection, generation_));
  RngSequence variation(CounterRng(seed_, RngStage::nsga2_variation, generation_));
  RngSequence refill(CounterRng(seed_, RngStage::nsga2_refill, generation_));
  // Binary tournament; the pool is sorted, so the smaller index is the better individual.
  const auto tournament = [&]() -> const Levels& {
    const std::size_t first = selection.below(pool.size());
    const std::size_t second = selection.below(pool.size());
    return pool[std::min(first, second)].levels;
  };
  while (proposals_.size() < population && table_.open_count() > 0) {
    Levels child;
    bool fresh = false;
    for (int attempt = 0; attempt < attempts_per_child && !fresh; ++attempt) {
      const Levels& mother = tournament();
      child = child_of(table_.space(), mother, tournament(), variation);
      const auto position = table_.find(child);
      fresh = position && table_.is_open(*position);
      if (fresh) propose(*position);
    }
    if (fresh) continue;
    // Stalled: the neighbourhood is known or illegal. Half of the places go to what lies closest to the last
    // child (the only way into a sampled table), half anywhere.
    const bool nearby = refill.below(2) == 0;
    propose(nearby ? table_.nearest_open(child) : table_.open_position(refill.below(table_.open_count())));
  }
}

}  // namespace moetune
