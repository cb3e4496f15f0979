#include "tuner/price_list.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/facts/error.h"
#include "tests/support/message_of.h"
#include "tests/support/source_dir.h"
#include "tuner/hardware_catalogue.h"
#include "tuner/json_fields.h"
#include "tuner/json_schema.h"

namespace moetune {
namespace {
using nlohmann::json;

json prices() {
  return json::parse(R"({"schema": 1, "usd_per_kwh": 0.3, "boxes": [
    {"device": "NVIDIA H200", "usd_per_hour": 3.5, "buy_usd": null, "source": "a quote", "date": "2026-11-01"},
    {"device": "NVIDIA H200", "gpu_count": 8, "usd_per_hour": 30, "source": "a quote", "date": "2026-11-01"},
    {"device": "cpu", "usd_per_hour": 0.5, "watts": 200, "source": "a quote", "date": "2026-11-01"}]})");
}

HardwareFingerprint box(const std::string& device, int gpu_count) {
  HardwareFingerprint hardware;
  hardware.device = device;
  hardware.gpu_count = gpu_count;
  return hardware;
}

TEST(PriceList, FindsABoxByItsDeviceAndCount) {
  const PriceList list = price_list_from_json(prices(), "prices.json");
  EXPECT_EQ(list.find(box("nvidia h200", 1))->price.usd_per_hour, 3.5);
  EXPECT_EQ(list.find(box("NVIDIA H200", 8))->price.usd_per_hour, 30.0);
  EXPECT_EQ(list.find(box("cpu", 0))->price.watts, 200.0);
  EXPECT_EQ(list.find(box("NVIDIA H200", 2)), nullptr);
  EXPECT_FALSE(list.boxes.front().price.buy_usd) << "null is not known";
  EXPECT_EQ(list.boxes.front().price.source, "a quote, 2026-11-01");
}

TEST(PriceList, MistakesAreNamed) {
  const auto complaint = [](const json& document) {
    return message_of<InputError>([&] { price_list_from_json(document, "p.json"); });
  };
  json wrong = prices();
  wrong["boxes"][0]["usd_per_hour"] = -1;
  EXPECT_TRUE(has_text(complaint(wrong), "p.json: boxes[0].usd_per_hour"));
  wrong = prices();
  wrong["boxes"][1].erase("source");
  EXPECT_TRUE(has_text(complaint(wrong), "source"));
  wrong = prices();
  wrong["boxes"][1]["usd_per_day"] = 1;
  EXPECT_TRUE(has_text(complaint(wrong), "usd_per_day"));
}

TEST(PriceList, ItsSchemaAgrees) {
  const json schema = read_json_file(source_dir() + "/profiles/prices.schema.json");
  EXPECT_TRUE(schema_violations(prices(), schema).empty());
  json wrong = prices();
  wrong["boxes"][0]["usd_per_hour"] = -1;
  EXPECT_FALSE(schema_violations(wrong, schema).empty());
}

TEST(HardwareCatalogue, TheOneThatComesWithTheProgramIsValidAndSaysWhereFrom) {
  const std::string file = source_dir() + "/profiles/hardware.json";
  const json document = read_json_file(file);
  EXPECT_TRUE(
      schema_violations(document, read_json_file(source_dir() + "/profiles/hardware.schema.json")).empty());
  const std::vector<CatalogueBox> boxes = load_hardware_catalogue(file);
  for (const char* name :
       {"rtx-4090", "a10g", "a100-pcie-80gb", "a100-sxm-80gb", "h100-sxm", "h200-sxm", "b200"})
    EXPECT_EQ(box_named(boxes, name).name, name);
  for (const CatalogueBox& each : boxes) {
    EXPECT_FALSE(each.source.empty()) << each.name;
    // A missing price is explained, a price has its source.
    EXPECT_EQ(each.price.usd_per_hour || each.price.buy_usd, !each.price.source.empty()) << each.name;
    EXPECT_TRUE(each.price.usd_per_hour || !each.price_note.empty()) << each.name;
  }
  EXPECT_TRUE(has_text(message_of<InputError>([&] { box_named(boxes, "h300"); }), "h200-sxm"));
}

TEST(HardwareCatalogue, TheNearestBoxesAreAlikeInMemoryAndNotTheBoxItself) {
  const std::vector<CatalogueBox> boxes = load_hardware_catalogue(source_dir() + "/profiles/hardware.json");
  HardwareFingerprint hardware = box("NVIDIA H200", 1);
  hardware.device_bytes = 141'000'000'000;
  hardware.memory_gb_per_s = 4428.0;
  EXPECT_EQ(find_box(boxes, hardware)->name, "h200-sxm");
  const auto near = nearest_boxes(boxes, hardware, 2);
  ASSERT_EQ(near.size(), 2U);
  EXPECT_EQ(near[0]->name, "b200");
  EXPECT_EQ(near[1]->name, "h100-sxm");
}

}  // namespace
}  // namespace moetune
