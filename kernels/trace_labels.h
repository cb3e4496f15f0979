// Which label a record of a GPU belongs to: kernels of a graph by the id of their node, all others by the id
// of the call that launched them. Start at current(): what is set while a node is made or a call is entered
// is what its records get.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>

namespace moetune {

class TraceLabels {
 public:
  TraceLabels();

  // Another one for each of the process: whoever captured a graph knows by it which one has labels of its
  // nodes. From 1.
  std::int64_t number() const { return number_; }
  std::uint32_t current() const { return current_; }
  void set_current(std::uint32_t label) { current_ = label; }

  // A node was captured.
  void node_made(std::uint64_t node) { of_node_[node] = current_; }
  // Graphs are executed as a copy of themselves, with ids of its own.
  void node_copied(std::uint64_t from, std::uint64_t to);
  // A call that may launch something was entered.
  void call_entered(std::uint32_t correlation) { of_call_[correlation] = current_; }
  // Calls of one recording are of no use to the next; nodes live as long as their graphs.
  void forget_calls() { of_call_.clear(); }

  // node: 0 where the record is of no graph. 0 (no label) for what was made while nobody looked.
  std::uint32_t of(std::uint64_t node, std::uint32_t correlation) const;
  std::size_t nodes() const { return of_node_.size(); }

 private:
  std::int64_t number_;
  std::uint32_t current_ = 0;
  std::unordered_map<std::uint64_t, std::uint32_t> of_node_;
  std::unordered_map<std::uint32_t, std::uint32_t> of_call_;
};

}  // namespace moetune
