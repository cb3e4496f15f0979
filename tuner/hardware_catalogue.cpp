#include "tuner/hardware_catalogue.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "engine/facts/error.h"
#include "tuner/json_fields.h"
#include "tuner/problems.h"

namespace moetune {
namespace {

double above_zero(const JsonFields& fields, const char* name, const char* unit) {
  const double value = fields.number(name);
  if (value <= 0.0) refuse(fields.place(name), shown(fields.required(name)), std::string(unit) + ", above 0");
  return value;
}

// {"usd": 1599, "source": "...", "date": "..."}; absent or null: not known.
std::optional<double> price(const JsonFields& fields, const char* name, std::string& source) {
  if (!fields.has(name)) return std::nullopt;
  const JsonFields parts(fields.object(name), fields.place(name));
  parts.only({"usd", "source", "date"});
  const double usd = above_zero(parts, "usd", "US dollars");
  source += fmt::format("{}{}, {}", source.empty() ? "" : "; ", parts.text("source"), parts.text("date"));
  return usd;
}

CatalogueBox box_from(const JsonFields& fields) {
  fields.only({"name", "device", "gpu_count", "memory_gb", "memory_gb_per_s", "link_gb_per_s", "interconnect",
               "watts", "source", "date", "rent_per_hour", "buy", "price_note"});
  CatalogueBox box;
  box.name = fields.text("name");
  box.device = fields.text("device");
  box.gpu_count = static_cast<int>(fields.integer("gpu_count", 1, 1024));
  box.memory_bytes = fields.integer("memory_gb", 1, 1 << 20) * 1'000'000'000;
  box.memory_gb_per_s = above_zero(fields, "memory_gb_per_s", "GB/s");
  box.link_gb_per_s = above_zero(fields, "link_gb_per_s", "GB/s");
  box.interconnect = fields.text("interconnect");
  box.source = fields.text("source") + ", " + fields.text("date");
  if (fields.has("watts")) box.price.watts = above_zero(fields, "watts", "watts");
  box.price.usd_per_hour = price(fields, "rent_per_hour", box.price.source);
  box.price.buy_usd = price(fields, "buy", box.price.source);
  box.price_note = fields.text_or("price_note", "");
  return box;
}

}  // namespace

std::vector<CatalogueBox> hardware_catalogue_from_json(const nlohmann::json& object,
                                                       const std::string& where) {
  const JsonFields fields(object, where);
  fields.only({"$schema", "schema", "description", "boxes"});
  fields.integer("schema", 1, 1);
  std::vector<CatalogueBox> boxes;
  const nlohmann::json& list = fields.array("boxes");
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string place = fields.place("boxes") + "[" + std::to_string(i) + "]";
    CatalogueBox box = box_from(JsonFields(list[i], place));
    const bool repeated = std::any_of(boxes.begin(), boxes.end(),
                                      [&](const CatalogueBox& each) { return each.name == box.name; });
    if (repeated) refuse(place + ".name", "'" + box.name + "' is there twice", "a name of its own");
    boxes.push_back(std::move(box));
  }
  return boxes;
}

std::vector<CatalogueBox> load_hardware_catalogue(const std::string& file) {
  return hardware_catalogue_from_json(read_json_file(file), file);
}

const CatalogueBox& box_named(std::span<const CatalogueBox> boxes, const std::string& name) {
  std::vector<std::string> names;
  for (const CatalogueBox& box : boxes) {
    if (equal_but_for_case(box.name, name)) return box;
    names.push_back(box.name);
  }
  throw InputError("--with", "no box named '" + name + "' in the catalogue",
                   fmt::format("{}", fmt::join(names, ", ")));
}

BoxPrice price_with_note(const CatalogueBox& box) {
  BoxPrice price = box.price;
  if (!box.price_note.empty()) price.source += (price.source.empty() ? "" : "; ") + box.price_note;
  return price;
}

const CatalogueBox* find_box(std::span<const CatalogueBox> boxes, const HardwareFingerprint& hardware) {
  const auto found = std::find_if(boxes.begin(), boxes.end(), [&](const CatalogueBox& box) {
    return box.gpu_count == hardware.gpu_count && equal_but_for_case(box.device, hardware.device);
  });
  return found == boxes.end() ? nullptr : &*found;
}

std::vector<const CatalogueBox*> nearest_boxes(std::span<const CatalogueBox> boxes,
                                               const HardwareFingerprint& hardware, std::size_t most) {
  const CatalogueBox* own = find_box(boxes, hardware);
  const auto distance = [&](const CatalogueBox& box) {
    const auto apart = [](double a, double b) {
      return a > 0.0 && b > 0.0 ? std::abs(std::log(a / b)) : 0.0;
    };
    return apart(static_cast<double>(box.memory_bytes), static_cast<double>(hardware.device_bytes)) +
           apart(box.memory_gb_per_s, hardware.memory_gb_per_s);
  };
  std::vector<const CatalogueBox*> near;
  for (const CatalogueBox& box : boxes)
    if (&box != own && box.gpu_count == 1) near.push_back(&box);
  std::stable_sort(near.begin(), near.end(),
                   [&](const CatalogueBox* a, const CatalogueBox* b) { return distance(*a) < distance(*b); });
  near.resize(std::min(most, near.size()));
  return near;
}

}  // namespace moetune
