// moetune list: what there is to choose from. The lists themselves stand in list_*.cpp.
#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/facts/error.h"
#include "tuner/commands/command.h"
#include "tuner/commands/common_options.h"
#include "tuner/commands/listing.h"
#include "tuner/commands/nearest.h"
#include "tuner/printable.h"

namespace moetune {
namespace {

struct Kind {
  const char* name;
  Listing (*list)();
};

constexpr std::array<Kind, 10> kinds{{{"models", list_models},
                                      {"spaces", list_spaces},
                                      {"workloads", list_workloads},
                                      {"profiles", list_profiles},
                                      {"knobs", list_knobs},
                                      {"metrics", list_metrics},
                                      {"searchers", list_searchers},
                                      {"hardware", list_hardware},
                                      {"servers", list_servers},
                                      {"claims", list_claims}}};

struct Options {
  std::string what;
  std::string hardware;
  bool names = false;
  Console console;
};

const Kind& kind_named(const std::string& what) {
  std::vector<std::string> names;
  for (const Kind& kind : kinds) names.emplace_back(kind.name);
  const std::string accepted = fmt::format("{}", fmt::join(names, ", "));
  if (what.empty()) throw InputError("list", "nothing is named", accepted);
  const auto* const kind = std::ranges::find(kinds, what, &Kind::name);
  if (kind != kinds.end()) return *kind;
  const std::string closest = nearest(what, names);
  throw InputError("list",
                   "unknown kind '" + what + "'" + (closest.empty() ? "" : ", did you mean " + closest + "?"),
                   accepted);
}

ExitCode run_list(const Options& options) {
  const Kind& kind = kind_named(options.what);
  if (!options.hardware.empty() && options.what != "profiles")
    throw InputError("--hardware", "with 'list " + options.what + "'", "'list profiles'");
  if (options.names && options.console.json) throw InputError("--names", "with --json", "one of the two");
  const Listing listing = options.hardware.empty() ? kind.list() : list_profiles_for(options.hardware);
  for (const std::string& file : listing.left_out)
    options.console.warn("moetune: left out: " + printable(file));
  if (options.names) {
    for (const nlohmann::json& entry : listing.document)
      options.console.result(entry.at(listing.name_field).get<std::string>());
    return ExitCode::done;
  }
  options.console.result(listing.table.rows.empty() ? listing.when_empty : listing.table.text());
  if (!listing.remarks.empty()) options.console.result("\n" + listing.remarks);
  options.console.document(listing.document);
  return ExitCode::done;
}

}  // namespace

Command add_list_command(CLI::App& program) {
  auto options = std::make_shared<Options>();
  CLI::App& command = add_subcommand(program, "list",
                                     "What there is: models, spaces, workloads, profiles, knobs, metrics, "
                                     "searchers, hardware, servers, claims");
  add_text_option(
      command, "what", options->what, "",
      "models | spaces | workloads | profiles | knobs | metrics | searchers | hardware | servers | claims");
  add_text_option(command, "--hardware", options->hardware, "auto|cpu|cuda",
                  "Of profiles: the nearest to this box first, and how near");
  add_flag(command, "--names", options->names, "Names alone, one a line, as completions of shells want them");
  add_output_options(command, options->console);
  return {&command, [options] { return run_list(*options); }};
}

}  // namespace moetune
