// What kind of file this is, by how it begins, for 'moetune validate'. Start at file_kind().
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace moetune {

enum class FileKind { json, trial_log, samples, safetensors, numpy };

// begin: the first bytes of the file, with its first line where that is short; bytes: all it has.
FileKind kind_from(std::string_view begin, std::int64_t bytes, const std::string& name);

// By its first bytes where it can be opened again. What can be read only once (a pipe, say) goes by its name,
// so that all of it is left to whoever reads it: JSON, as a rule.
FileKind file_kind(const std::string& path);

}  // namespace moetune
