// Files that survive a kill and a full disk: whole or not at all, and on the disk before the call returns.
#pragma once

#include <string>
#include <string_view>

#include "tuner/descriptor.h"

namespace moetune {

// Writes a file so that a reader sees the old or the new one, never half of it, and waits for the disk.
// Throws std::runtime_error naming the file.
void write_file_atomically(const std::string& file, std::string_view contents);

// Opens with O_CLOEXEC: no worker inherits it. Not open when it failed; errno says why.
Descriptor open_file(const std::string& file, int flags);

// Writes everything; false when the disk or the receiver refused, errno says why.
bool write_all(int descriptor, std::string_view bytes);

// Makes the name of a new file last: its folder has to reach the disk as well. Throws std::runtime_error.
void sync_folder_of(const std::string& file);

// What errno means, in words.
std::string error_text(int error_number);

}  // namespace moetune
