// moetune list hardware, servers and claims: boxes that can be had, servers, and what is said about their
// flags.
#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "engine/data_files.h"
#include "tuner/commands/listing.h"
#include "tuner/commands/server_tables.h"
#include "tuner/export/claims.h"
#include "tuner/hardware_catalogue.h"

namespace moetune {

Listing list_hardware() {
  Listing listing{.table = {.headings = {"box", "device", "GPUs", "GB", "GB/s", "link", "USD/h", "to buy"},
                            .alignment = {Align::left, Align::left, Align::right, Align::right, Align::right,
                                          Align::right, Align::right, Align::right}},
                  .when_empty = "no catalogue comes with this build"};
  const std::string folder = profiles_folder();
  if (folder.empty() || !std::filesystem::exists(folder + "/hardware.json")) return listing;
  const auto usd = [](const std::optional<double>& value) {
    return value ? fmt::format("{:g}", *value) : std::string("-");
  };
  const auto or_null = [](const std::optional<double>& value) {
    return value ? nlohmann::json(*value) : nlohmann::json();
  };
  for (const CatalogueBox& box : load_hardware_catalogue(folder + "/hardware.json")) {
    listing.table.rows.push_back(
        {box.name, box.device, std::to_string(box.gpu_count),
         std::to_string(box.memory_bytes / 1'000'000'000), fmt::format("{:g}", box.memory_gb_per_s),
         fmt::format("{:g}", box.link_gb_per_s), usd(box.price.usd_per_hour), usd(box.price.buy_usd)});
    listing.document.push_back({{"name", box.name},
                                {"device", box.device},
                                {"gpu_count", box.gpu_count},
                                {"memory_bytes", box.memory_bytes},
                                {"memory_gb_per_s", box.memory_gb_per_s},
                                {"link_gb_per_s", box.link_gb_per_s},
                                {"interconnect", box.interconnect},
                                {"source", box.source},
                                {"usd_per_hour", or_null(box.price.usd_per_hour)},
                                {"buy_usd", or_null(box.price.buy_usd)},
                                {"price_source", box.price.source},
                                {"price_note", box.price_note}});
  }
  listing.remarks = wrapped(
      "Peak figures of the makers, per GPU; link: host to GPU, one way. -: no dated source gives a price. "
      "Sources: --json, profiles/hardware.json.",
      80, 0);
  return listing;
}

Listing list_servers() {
  Listing listing{
      .table = {.headings = {"server", "knobs", "flags", "as of version"},
                .alignment = {Align::left, Align::right, Align::right, Align::left}},
      .name_field = "server",
      .remarks = wrapped("knobs: how many of moetune's the server has a flag, a variable or a "
                         "default for; 'moetune export --server NAME' says which. flags: how many "
                         "of its own are known here, + where it has more.",
                         80, 0)};
  const std::vector<ServerTable> tables = server_tables();
  const KnobNames names = server_knob_names();
  for (const ServerTable& table : tables) {
    const auto said = std::ranges::count_if(names.knobs, [&](const KnobName& knob) {
      const auto rules = table.settings.find(knob.setting);
      return rules != table.settings.end() &&
             std::ranges::any_of(rules->second, [](const SettingRule& rule) { return rule.none.empty(); });
    });
    listing.table.rows.push_back({table.server, std::to_string(said),
                                  std::to_string(table.flags.size()) + (table.flags_complete ? "" : "+"),
                                  table.version});
    listing.document.push_back({{"server", table.server},
                                {"name", table.name},
                                {"spellings", table.spellings},
                                {"version", table.version},
                                {"source", table.source},
                                {"not_read", table.not_read},
                                {"flags", table.flags.size()},
                                {"flags_complete", table.flags_complete},
                                {"knobs_said", said}});
  }
  return listing;
}

Listing list_claims() {
  Listing listing{.table = {.headings = {"verdict", "what is said, and what is known"}},
                  .name_field = "id",
                  .when_empty = "no claims come with this build"};
  if (claims_file().empty()) return listing;
  for (const Claim& claim : read_claims(claims_file())) {
    listing.table.rows.push_back({claim.verdict, claim.claim + ": " + claim.fact});
    listing.document.push_back({{"id", claim.id},
                                {"flags", claim.flags},
                                {"claim", claim.claim},
                                {"verdict", claim.verdict},
                                {"fact", claim.fact},
                                {"source", claim.source}});
  }
  return listing;
}

}  // namespace moetune
