// Which part of a model a kernel of a server belongs to, by its name: data, with where each name comes from.
// Start at class_of_kernel(). Names change from release to release: what no pattern knows is shown, never
// guessed.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "engine/sync_tax/interval.h"

namespace moetune {

struct KernelClass {
  Activity activity = Activity::compute;
  Row row = Row::other;
  friend bool operator==(const KernelClass&, const KernelClass&) = default;
};

struct KernelName {
  std::string_view scope;    // has to occur in the name too; empty: none
  std::string_view pattern;  // occurs in the name, demangled or not
  KernelClass is;
  std::string_view source;
};

// In the order in which they are tried.
std::span<const KernelName> kernel_names();

// Of the first pattern that fits; empty: none does.
std::optional<KernelClass> class_of_kernel(std::string_view name);

}  // namespace moetune
