// What boxes cost, from a file: `--prices FILE`. Schema: profiles/prices.schema.json. A price that is not in
// the file is not known, never guessed. Start at load_price_list().
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "engine/facts/hardware_fingerprint.h"

namespace moetune {

// Of one box, whole: all of its GPUs.
struct BoxPrice {
  std::optional<double> usd_per_hour;  // rented
  std::optional<double> buy_usd;       // bought
  std::optional<double> watts;         // drawn from the wall while it serves
  std::string source;                  // where the price stands, with its date
};

struct PricedBox {
  std::string device;  // the GPU's name as its driver gives it, or "cpu"
  int gpu_count = 1;   // 0 for "cpu"
  BoxPrice price;
};

struct PriceList {
  std::optional<double> usd_per_kwh;
  std::vector<PricedBox> boxes;

  // nullptr: not in the list. Names are compared without regard to case.
  const PricedBox* find(const HardwareFingerprint& hardware) const;
};

PriceList price_list_from_json(const nlohmann::json& object, const std::string& where);  // throws InputError
PriceList load_price_list(const std::string& file);

// Texts that differ in the case of ASCII letters alone are equal.
bool equal_but_for_case(const std::string& a, const std::string& b);

}  // namespace moetune
