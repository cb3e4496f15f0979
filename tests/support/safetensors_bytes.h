// safetensors files made by hand for tests: right ones and lying ones.
#pragma once

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

#include <nlohmann/json.hpp>

namespace moetune {

// A file with this header text, whatever it says, and this much data.
inline std::string safetensors_bytes(const std::string& header, const std::string& data) {
  const std::uint64_t length = header.size();
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + header + data;
}

// A file taken apart so that a test can change one thing. Offsets count from the start of data.
struct EditableSafetensors {
  nlohmann::json header;
  std::string data;
  std::string bytes() const { return safetensors_bytes(header.dump(), data); }
};

inline std::string read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  if (!(file << bytes) || !file.flush()) throw std::runtime_error("cannot write " + path);
}

inline EditableSafetensors take_apart(const std::string& bytes) {
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  return {nlohmann::json::parse(bytes.substr(sizeof length, length)), bytes.substr(sizeof length + length)};
}

}  // namespace moetune
