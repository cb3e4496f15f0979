// Fuzzes the readers of price lists and of the catalogue of boxes: any bytes give one or an InputError. What
// is read holds only amounts above 0 and finds its own boxes; read on after the first mistake, there is one
// exactly where the plain reading ended.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include <nlohmann/json.hpp>

#include "engine/facts/error.h"
#include "tuner/hardware_catalogue.h"
#include "tuner/json_fields.h"
#include "tuner/price_list.h"
#include "tuner/problems.h"

namespace {

// abort() rather than assert(): a release build must find it too.
void insist(bool holds) {
  if (!holds) std::abort();
}

void check(const moetune::BoxPrice& price) {
  for (const auto& amount : {price.usd_per_hour, price.buy_usd, price.watts})
    insist(!amount || (*amount > 0.0 && std::isfinite(*amount)));
}

void check_prices(std::string_view text) {
  const moetune::PriceList list =
      moetune::price_list_from_json(moetune::parse_json(text, "prices.json"), "prices.json");
  for (const moetune::PricedBox& box : list.boxes) {
    check(box.price);
    moetune::HardwareFingerprint hardware;
    hardware.device = box.device;
    hardware.gpu_count = box.gpu_count;
    insist(list.find(hardware) != nullptr);
  }
}

void check_catalogue(std::string_view text) {
  const auto boxes =
      moetune::hardware_catalogue_from_json(moetune::parse_json(text, "hardware.json"), "hardware.json");
  for (const moetune::CatalogueBox& box : boxes) {
    check(box.price);
    insist(box.memory_bytes > 0 && box.memory_gb_per_s > 0.0 && box.link_gb_per_s > 0.0);
  }
  insist(moetune::nearest_boxes(boxes, {}, 3).size() <= 3);
}

template <class Read>
void both_ways(Read read) {
  bool is_good = true;
  try {
    read();
  } catch (const moetune::InputError&) {
    is_good = false;
  }
  const moetune::ProblemList problems;
  moetune::attempt(read);
  insist(problems.messages().empty() == is_good);
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto prices = [&] {
    moetune::price_list_from_json(moetune::parse_json(text, "prices.json"), "prices.json");
  };
  const auto catalogue = [&] {
    moetune::hardware_catalogue_from_json(moetune::parse_json(text, "hardware.json"), "hardware.json");
  };
  both_ways(prices);
  both_ways(catalogue);
  try {
    check_prices(text);
  } catch (const moetune::InputError&) {
  }
  try {
    check_catalogue(text);
  } catch (const moetune::InputError&) {
  }
  return 0;
}
