// Golden checkpoints, and copies of them that a test may break.
#pragma once

#include <array>
#include <cstddef>
#include <filesystem>
#include <string>

#include <nlohmann/json.hpp>

#include "engine/checkpoint.h"
#include "engine/facts/error.h"
#include "tests/support/message_of.h"
#include "tests/support/safetensors_bytes.h"
#include "tests/support/source_dir.h"
#include "tests/support/temporary_directory.h"

namespace moetune {

inline std::string golden(const std::string& name) { return source_dir() + "/tests/golden/" + name; }

// A copy of a golden checkpoint that a test may break.
class CheckpointCopy {
 public:
  explicit CheckpointCopy(const std::string& name) {
    std::filesystem::copy(golden(name), directory_.path(), std::filesystem::copy_options::recursive);
  }
  std::string path() const { return directory_.path().string(); }
  std::string file(const std::string& name) const { return directory_ / name; }
  std::string weights() const { return file("model.safetensors"); }

  template <class Change>
  void edit_weights(const Change& change) const {
    EditableSafetensors file = take_apart(read_bytes(weights()));
    change(file);
    write_bytes(weights(), file.bytes());
  }
  template <class Change>
  void edit_json(const std::string& name, const Change& change) const {
    nlohmann::json json = nlohmann::json::parse(read_bytes(file(name)));
    change(json);
    write_bytes(file(name), json.dump());
  }
  std::string refusal() const {
    return message_of<InputError>([&] { Checkpoint opened(path()); });
  }

 private:
  TemporaryDirectory directory_;
};

// Cuts a tensor out of header and data; those behind it move up.
inline void remove_tensor(EditableSafetensors& file, const std::string& name) {
  const auto offsets = file.header.at(name).at("data_offsets").get<std::array<std::size_t, 2>>();
  const std::size_t bytes = offsets[1] - offsets[0];
  file.data.erase(offsets[0], bytes);
  file.header.erase(name);
  for (auto& [other, entry] : file.header.items()) {
    if (other == "__metadata__" || entry.at("data_offsets")[0].get<std::size_t>() < offsets[1]) continue;
    for (auto& offset : entry.at("data_offsets")) offset = offset.get<std::size_t>() - bytes;
  }
}

}  // namespace moetune
