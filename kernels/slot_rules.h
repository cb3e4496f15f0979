// Who gets which slot, in its plainest form: what LookUpSlots and PlaceAhead have in common on a CPU.
#pragma once

#include <cstdint>

#include "kernels/slot_lookup.h"

namespace moetune {

class SlotRules {
 public:
  SlotRules(const LayerSlots& of, const FetchList& fetch)
      : of_(of), fetch_(fetch), experts_(of.state.slot_of.dim(1)) {
    fetch_.count.i32()[0] = 0;
  }

  std::int64_t experts() const { return experts_; }
  std::int32_t key(std::int32_t expert) const {
    return static_cast<std::int32_t>(of_.layer * experts_ + expert);
  }
  std::int32_t& slot_of(std::int32_t key) const { return of_.state.slot_of.i32()[key]; }
  std::int32_t placed() const { return fetch_.count.i32()[0]; }

  // Gives an expert that has none a slot, and lists it as to be fetched. wave: what it holds stays. -1: all
  // are in use.
  std::int32_t place(std::int32_t expert, std::int64_t wave) const;

 private:
  std::int32_t find_slot(std::int64_t wave) const;

  const LayerSlots& of_;
  const FetchList& fetch_;
  std::int64_t experts_;
};

}  // namespace moetune
