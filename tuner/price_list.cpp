#include "tuner/price_list.h"

#include <algorithm>
#include <cctype>

#include <nlohmann/json.hpp>

#include "tuner/json_fields.h"
#include "tuner/problems.h"

namespace moetune {
namespace {

std::optional<double> amount(const JsonFields& fields, const char* name) {
  if (!fields.has(name)) return std::nullopt;
  const double value = fields.number(name);
  if (value <= 0.0)
    refuse(fields.place(name), shown(fields.required(name)),
           "a number above 0, or null where it is not known");
  return value;
}

PricedBox box_from(const JsonFields& fields) {
  fields.only({"device", "gpu_count", "usd_per_hour", "buy_usd", "watts", "source", "date"});
  PricedBox box;
  box.device = fields.text("device");
  const std::int64_t usual = equal_but_for_case(box.device, "cpu") ? 0 : 1;
  box.gpu_count =
      static_cast<int>(fields.has("gpu_count") ? fields.integer("gpu_count", usual, 1024) : usual);
  box.price.usd_per_hour = amount(fields, "usd_per_hour");
  box.price.buy_usd = amount(fields, "buy_usd");
  box.price.watts = amount(fields, "watts");
  box.price.source = fields.text("source") + ", " + fields.text("date");
  return box;
}

}  // namespace

bool equal_but_for_case(const std::string& a, const std::string& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

const PricedBox* PriceList::find(const HardwareFingerprint& hardware) const {
  const auto found = std::find_if(boxes.begin(), boxes.end(), [&](const PricedBox& box) {
    return box.gpu_count == hardware.gpu_count && equal_but_for_case(box.device, hardware.device);
  });
  return found == boxes.end() ? nullptr : &*found;
}

PriceList price_list_from_json(const nlohmann::json& object, const std::string& where) {
  const JsonFields fields(object, where);
  fields.only({"$schema", "schema", "usd_per_kwh", "boxes"});
  fields.integer("schema", 1, 1);
  PriceList list;
  list.usd_per_kwh = amount(fields, "usd_per_kwh");
  const nlohmann::json& boxes = fields.array("boxes");
  for (std::size_t i = 0; i < boxes.size(); ++i)
    list.boxes.push_back(
        box_from(JsonFields(boxes[i], fields.place("boxes") + "[" + std::to_string(i) + "]")));
  return list;
}

PriceList load_price_list(const std::string& file) {
  return price_list_from_json(read_json_file(file), file);
}

}  // namespace moetune
