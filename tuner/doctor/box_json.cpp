#include "tuner/doctor/box_json.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <type_traits>
#include <vector>

#include "engine/facts/error.h"
#include "tuner/json_fields.h"

namespace moetune {
namespace {

// The one list of fields and their names, for both directions.
template <class Process, class Visit>
  requires std::is_same_v<std::remove_const_t<Process>, GpuProcess>
void for_each_field(Process& process, const Visit& visit) {
  visit("pid", process.pid);
  visit("name", process.name);
  visit("bytes", process.bytes);
  visit("is_ours", process.is_ours);
}

template <class Peer, class Visit>
  requires std::is_same_v<std::remove_const_t<Peer>, GpuPeer>
void for_each_field(Peer& peer, const Visit& visit) {
  visit("bus_id", peer.bus_id);
  visit("nvlink", peer.nvlink);
  visit("path", peer.path);
}

template <class Gpu, class Visit>
  requires std::is_same_v<std::remove_const_t<Gpu>, GpuState>
void for_each_field(Gpu& gpu, const Visit& visit) {
  visit("name", gpu.name);
  visit("bus_id", gpu.bus_id);
  visit("pcie_generation", gpu.pcie_generation);
  visit("pcie_width", gpu.pcie_width);
  visit("most_pcie_generation", gpu.most_pcie_generation);
  visit("most_pcie_width", gpu.most_pcie_width);
  visit("throttle_reasons", gpu.throttle_reasons);
  visit("ecc_enabled", gpu.ecc_enabled);
  visit("uncorrected_errors", gpu.uncorrected_errors);
  visit("busy_percent", gpu.busy_percent);
  visit("memory_bytes", gpu.memory_bytes);
  visit("used_bytes", gpu.used_bytes);
  visit("link_gb_per_s", gpu.link_gb_per_s);
  visit("processes", gpu.processes);
  visit("nvlinks", gpu.nvlinks);
  visit("peers", gpu.peers);
  visit("numa_node", gpu.numa_node);
  visit("celsius", gpu.celsius);
}

template <class Box, class Visit>
  requires std::is_same_v<std::remove_const_t<Box>, BoxFacts>
void for_each_field(Box& box, const Visit& visit) {
  visit("build_has_cuda", box.build_has_cuda);
  visit("build_cuda", box.build_cuda);
  visit("driver_version", box.driver_version);
  visit("driver_cuda", box.driver_cuda);
  visit("gpu_problem", box.gpu_problem);
  visit("nccl_version", box.nccl_version);
  visit("gpus", box.gpus);
  visit("pinned_gb_per_s", box.pinned_gb_per_s);
  visit("pageable_gb_per_s", box.pageable_gb_per_s);
  visit("device_gb_per_s", box.device_gb_per_s);
  visit("host_gb_per_s", box.host_gb_per_s);
  visit("host_bytes", box.host_bytes);
  visit("available_bytes", box.available_bytes);
  visit("swap_bytes", box.swap_bytes);
  visit("swap_used_bytes", box.swap_used_bytes);
  visit("swapping_mb_per_s", box.swapping_mb_per_s);
  visit("memory_kills", box.memory_kills);
  visit("machine_cores", box.machine_cores);
  visit("usable_cores", box.usable_cores);
  visit("quota_cores", box.quota_cores);
  visit("throttled_share", box.throttled_share);
  visit("load", box.load);
  visit("numa_nodes", box.numa_nodes);
  visit("our_numa_nodes", box.our_numa_nodes);
}

struct Writer {
  nlohmann::json& object;

  template <class Value>
  static nlohmann::json json_of(const Value& value) {
    if constexpr (std::is_class_v<Value> && !std::is_same_v<Value, std::string>) {
      nlohmann::json inner = nlohmann::json::object();
      for_each_field(value, Writer{inner});
      return inner;
    } else {
      return value;
    }
  }
  template <class Value>
  void operator()(const char* name, const Value& value) const {
    object[name] = json_of(value);
  }
  template <class Value>
  void operator()(const char* name, const std::optional<Value>& value) const {
    if (value) object[name] = json_of(*value);
  }
  template <class Value>
  void operator()(const char* name, const std::vector<Value>& values) const {
    object[name] = nlohmann::json::array();
    for (const Value& value : values) object[name].push_back(json_of(value));
  }
};

constexpr std::int64_t most = std::int64_t{1} << 62;

void read(const JsonFields& fields, const char* name, std::string& value) { value = fields.text(name); }
void read(const JsonFields& fields, const char* name, bool& value) { value = fields.flag(name); }
void read(const JsonFields& fields, const char* name, double& value) { value = fields.number(name); }
void read(const JsonFields& fields, const char* name, std::int64_t& value) {
  value = fields.integer(name, -1, most);
}
void read(const JsonFields& fields, const char* name, int& value) {
  value = static_cast<int>(fields.integer(name, -1, std::numeric_limits<int>::max()));
}

template <class Record>
void read_record(const JsonFields& fields, Record& record);

template <class Value>
void read(const JsonFields& fields, const char* name, std::optional<Value>& value) {
  read(fields, name, value.emplace());
}

template <class Value>
void read(const JsonFields& fields, const char* name, std::vector<Value>& values) {
  values.clear();
  const nlohmann::json& list = fields.array(name);
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string place = fields.place(name) + "[" + std::to_string(i) + "]";
    if constexpr (std::is_same_v<Value, GpuState> || std::is_same_v<Value, GpuProcess> ||
                  std::is_same_v<Value, GpuPeer>) {
      read_record(JsonFields(list[i], place), values.emplace_back());
    } else {
      const nlohmann::json holder = {{"value", list[i]}};
      read(JsonFields(holder, place), "value", values.emplace_back());
    }
  }
}

template <class Record>
void read_record(const JsonFields& fields, Record& record) {
  std::vector<std::string_view> known;
  for_each_field(record, [&](const char* name, const auto&) { known.emplace_back(name); });
  fields.only(known);
  for_each_field(record, [&](const char* name, auto& value) {
    if (fields.has(name)) read(fields, name, value);
  });
}

}  // namespace

nlohmann::json to_json_value(const BoxFacts& box) { return Writer::json_of(box); }

BoxFacts box_from_json(const nlohmann::json& object, const std::string& where) {
  BoxFacts box;
  read_record(JsonFields(object, where), box);
  return box;
}

BoxFacts read_box_file(const std::string& path) {
  const nlohmann::json document = read_json_file(path);
  const bool is_whole = document.is_object() && document.contains("box");
  return box_from_json(is_whole ? document["box"] : document, is_whole ? path + ": box" : path);
}

nlohmann::json to_json_value(const Finding& finding) {
  return {{"id", finding.id},
          {"severity", name_of(finding.severity)},
          {"what", finding.what},
          {"consequence", finding.consequence},
          {"remedy", finding.remedy}};
}

}  // namespace moetune
