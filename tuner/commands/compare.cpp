// moetune compare: boxes and models side by side, in time, memory, energy and money. Start at run_compare().
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "engine/data_files.h"
#include "tuner/commands/command.h"
#include "tuner/commands/common_options.h"
#include "tuner/commands/measured_before.h"
#include "tuner/commands/partial_file.h"
#include "tuner/commands/predicted_box.h"
#include "tuner/commands/profile_argument.h"
#include "tuner/commands/profile_registry.h"
#include "tuner/commands/quantities.h"
#include "tuner/commands/side_by_side.h"
#include "tuner/commands/table.h"
#include "tuner/compare/comparison_text.h"
#include "tuner/launch_profile.h"
#include "tuner/pareto.h"
#include "tuner/printable.h"
#include "tuner/trial_log.h"

namespace moetune {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t boxes_beside_one = 3;

struct CompareOptions {
  Console console;
  std::vector<std::string> profiles;
  std::vector<std::string> with;
  std::string prices;
  double usd_per_hour = 0.0;
  double usd_per_kwh = 0.0;
  double years = 3.0;
  std::string model;
  std::string html;
  std::string markdown;
};

struct Source {
  std::string name;  // as given
  LaunchProfile profile;
  std::vector<ProfilePoint> points;
};

std::vector<ProfilePoint> points_of_log(const std::string& file) {
  std::vector<ProfilePoint> points;
  const TrialLogContents log = read_trial_log(file);
  for (const Trial* trial : latest_ok_trials(log.trials)) points.push_back(profile_point(*trial));
  return points;
}

// Of a run all its trials; of a profile alone those that it holds.
Source source_of(const std::string& argument) {
  const std::string file = profile_file(argument);
  LaunchProfile profile = load_launch_profile(file);
  const std::string log = (fs::path(file).parent_path() / "trials.jsonl").string();
  const bool is_run = fs::path(file).filename() == "profile.json" && fs::exists(log);
  std::vector<ProfilePoint> points = is_run ? points_of_log(log) : points_of(profile);
  return {argument.empty() ? fs::path(file).parent_path().string() : argument, std::move(profile),
          std::move(points)};
}

ModelSpec known_model(const LaunchProfile& profile, const std::string& model_option) {
  std::optional<ModelSpec> model = model_of_profile(profile, model_option);
  if (!model)
    throw InputError("compare", "the model '" + profile.model + "' is not known here",
                     "--model DIR, its checkpoint");
  return *std::move(model);
}

std::vector<CatalogueBox> catalogue() {
  const std::string folder = profiles_folder();
  const std::string file = folder.empty() ? "" : folder + "/hardware.json";
  return file.empty() || !fs::exists(file) ? std::vector<CatalogueBox>{} : load_hardware_catalogue(file);
}

// What somebody brought comes first, part by part; then what the catalogue says.
BoxPrice price_of(const HardwareFingerprint& hardware, const PriceList& list, const CatalogueBox* box) {
  BoxPrice price = box == nullptr ? BoxPrice{} : price_with_note(*box);
  const PricedBox* own = list.find(hardware);
  if (own == nullptr) return price;
  if (own->price.usd_per_hour) price.usd_per_hour = own->price.usd_per_hour;
  if (own->price.buy_usd) price.buy_usd = own->price.buy_usd;
  if (own->price.watts) price.watts = own->price.watts;
  price.source = own->price.source + (price.source.empty() ? "" : "; otherwise " + price.source);
  return price;
}

void check_one_price(const CompareOptions& options, const std::vector<Source>& sources) {
  if (options.usd_per_hour <= 0.0) return;
  std::set<std::string> boxes;
  for (const Source& source : sources) boxes.insert(box_name(source.profile.hardware));
  if (boxes.size() > 1)
    throw InputError("--usd-per-hour", fmt::format("one price for {} boxes", boxes.size()),
                     "--prices FILE, which names them");
}

class Comparing {
 public:
  Comparing(const CompareOptions& options, std::vector<Source> sources)
      : options_(options), sources_(std::move(sources)), boxes_(catalogue()) {
    if (!options.prices.empty()) list_ = load_price_list(options.prices);
    for (const std::string& why : registry_.left_out)
      options.console.warn("moetune: left out of what was measured before: " + printable(why));
  }

  Comparison run() {
    Comparison comparison;
    comparison.gate = sources_.front().profile.gate;
    comparison.workload = sources_.front().profile.workload;
    comparison.money = {.usd_per_kwh = list_.usd_per_kwh, .years = options_.years};
    if (options_.usd_per_kwh > 0.0) comparison.money.usd_per_kwh = options_.usd_per_kwh;
    for (const Source& source : sources_) {
      const CatalogueBox* known = find_box(boxes_, source.profile.hardware);
      BoxPrice price = price_of(source.profile.hardware, list_, known);
      if (options_.usd_per_hour > 0.0) {
        price.usd_per_hour = options_.usd_per_hour;
        price.source =
            "rent from --usd-per-hour" + (price.source.empty() ? "" : "; otherwise " + price.source);
      }
      comparison.boxes.push_back(
          compared(source.profile, source.name, price, known == nullptr ? 0 : known->memory_bytes));
    }
    for (const std::string& name : options_.with) add_predicted(comparison, box_named(boxes_, name));
    if (sources_.size() == 1 && options_.with.empty()) add_nearest(comparison);
    settle(comparison);
    return comparison;
  }

 private:
  void add_predicted(Comparison& comparison, const CatalogueBox& box) {
    std::set<std::string> models;
    for (const Source& source : sources_) {
      if (!models.insert(source.profile.model_hash).second) continue;
      const MeasuredRun run{source.profile, known_model(source.profile, options_.model), source.points};
      ComparedBox made = predicted_box(run, box, find_box(boxes_, source.profile.hardware));
      made.is_measured_beside = std::ranges::any_of(sources_, [&](const Source& other) {
        return other.profile.model_hash == source.profile.model_hash &&
               is_of_box(other.profile.hardware, box, boxes_);
      });
      if (!made.is_measured_beside)
        made.measured_as = measured_before(source.profile, box, boxes_, registry_.profiles);
      HardwareFingerprint hardware;
      hardware.device = box.device;
      hardware.gpu_count = box.gpu_count;
      if (list_.find(hardware) != nullptr) made.price = price_of(hardware, list_, &box);
      comparison.boxes.push_back(std::move(made));
    }
  }

  // What one profile could be compared with; it is no reason to fail that it cannot.
  void add_nearest(Comparison& comparison) {
    try {
      for (const CatalogueBox* box :
           nearest_boxes(boxes_, sources_.front().profile.hardware, boxes_beside_one))
        add_predicted(comparison, *box);
    } catch (const InputError& error) {
      options_.console.warn(
          fmt::format("moetune: the nearest boxes are not set beside it: {}", printable(error.what())));
    }
  }

  const CompareOptions& options_;
  std::vector<Source> sources_;
  std::vector<CatalogueBox> boxes_;
  Registry registry_ = registered_profiles();
  PriceList list_;
};

ExitCode run_compare(const CompareOptions& options) {
  std::vector<std::string> paths = options.profiles;
  if (paths.empty()) paths.emplace_back();  // the newest run
  std::vector<Source> sources;
  for (const std::string& path : paths) sources.push_back(source_of(path));
  check_one_price(options, sources);
  if (!options.model.empty() && sources.size() == 1)  // refuses what is not the profile's
    static_cast<void>(known_model(sources.front().profile, options.model));

  std::vector<LaunchProfile> profiles;
  for (const Source& source : sources) profiles.push_back(source.profile);
  std::vector<std::string> names;
  for (const Source& source : sources) names.push_back(source.name);
  if (const std::vector<std::string> fields = differences(profiles, names); !fields.empty()) {
    options.console.warn("moetune: not comparable; these differ:");
    for (const std::string& field : fields) options.console.warn("  " + field);
    options.console.document({{"comparable", false}, {"differences", fields}});
    return ExitCode::not_comparable;
  }

  std::optional<PartialFile> page;
  if (!options.html.empty()) page.emplace("--html", options.html);
  std::optional<PartialFile> markdown;
  if (!options.markdown.empty()) markdown.emplace("--markdown", options.markdown);
  const Comparison comparison = Comparing(options, std::move(sources)).run();
  std::string text = side_by_side(comparison_headings(comparison), comparison_rows(comparison));
  for (const std::string& remark : comparison_remarks(comparison))
    text += "\n" + wrapped(printable(remark), 80, 0);
  options.console.result(text);
  if (page) page->finish(comparison_html(comparison));
  if (markdown) markdown->finish(comparison_markdown(comparison));
  options.console.document(to_json_value(comparison));
  return ExitCode::done;
}

}  // namespace

Command add_compare_command(CLI::App& program) {
  auto options = std::make_shared<CompareOptions>();
  CLI::App& command = add_subcommand(
      program, "compare", "Profiles of several boxes or models side by side: time, memory, energy, money",
      "Profiles or run directories of one gate, workload and service level; otherwise exit code 6 names what "
      "differs. One profile "
      "alone is set beside the nearest boxes of the catalogue, as the roofline predicts them.\n\n"
      "  moetune compare runs/latest\n"
      "  moetune compare a/profile.json b/profile.json --prices prices.json\n"
      "  moetune compare runs/latest --with h200-sxm --with rtx-4090 --usd-per-hour 2.5");
  add_words_option(command, "PROFILE", options->profiles, "FILE|DIR|NAME",
                   "Profiles, run directories or names of the registry; default the newest run");
  add_repeated_option(command, "--with", options->with, "NAME",
                      "Add a box of the catalogue as predicted; see 'moetune list hardware'");
  add_text_option(command, "--prices", options->prices, "FILE",
                  "What boxes cost; schema: profiles/prices.schema.json");
  add_parsed_option(command, "--usd-per-hour", options->usd_per_hour, parse_positive, "USD",
                    "Rent of the box, where all profiles are of one");
  add_parsed_option(command, "--usd-per-kwh", options->usd_per_kwh, parse_positive, "USD",
                    "Price of power, for owning");
  add_parsed_option(command, "--years", options->years, parse_positive, "N", "How long a bought box is used",
                    "3");
  add_text_option(command, "--model", options->model, "DIR",
                  "The checkpoint of the profile, where it is no model that comes with the program");
  add_text_option(command, "--html", options->html, "FILE", "Write the comparison as a page");
  add_text_option(command, "--markdown", options->markdown, "FILE", "Write the comparison as Markdown");
  add_output_options(command, options->console);
  return {&command, [options] { return run_compare(*options); }};
}

}  // namespace moetune
