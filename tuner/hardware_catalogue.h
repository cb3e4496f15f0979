// Boxes that are commonly bought or rented, from profiles/hardware.json: what their makers say of them, and
// prices as far as a dated source says one. Nothing here was measured. Start at load_hardware_catalogue().
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "tuner/price_list.h"

namespace moetune {

struct CatalogueBox {
  std::string name;    // for --with: "h200-sxm"
  std::string device;  // the GPU's name as its driver gives it
  int gpu_count = 1;
  std::int64_t memory_bytes = 0;  // of one GPU
  double memory_gb_per_s = 0.0;   // of one GPU, peak
  double link_gb_per_s = 0.0;     // host to one GPU, one way, peak
  std::string interconnect;       // between GPUs
  std::string source;             // of these facts, with the date they were read
  BoxPrice price;                 // parts without a verifiable source are empty
  std::string price_note;         // why a price is missing, or what it includes
};

std::vector<CatalogueBox> hardware_catalogue_from_json(const nlohmann::json& object,
                                                       const std::string& where);
std::vector<CatalogueBox> load_hardware_catalogue(const std::string& file);  // throws InputError

// By name; throws InputError with the names there are, the closest first.
const CatalogueBox& box_named(std::span<const CatalogueBox> boxes, const std::string& name);
BoxPrice price_with_note(const CatalogueBox& box);  // the note behind its source

// The box that this hardware is; nullptr: not in the catalogue.
const CatalogueBox* find_box(std::span<const CatalogueBox> boxes, const HardwareFingerprint& hardware);
// The boxes closest in memory size and memory rate (distance of the logarithms), without the hardware itself;
// one GPU each.
std::vector<const CatalogueBox*> nearest_boxes(std::span<const CatalogueBox> boxes,
                                               const HardwareFingerprint& hardware, std::size_t most);

}  // namespace moetune
