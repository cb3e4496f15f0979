// What else ran on the machine while a run was measured, kept in the run directory (other_work.txt, a name a
// line): whoever renders the run again, or compares a later night with its profile, must know it.
#pragma once

#include <string>
#include <vector>

namespace moetune {

// In the order they were added; empty: none was seen, or nobody looked.
std::vector<std::string> read_other_work(const std::string& run_path);

// Beside what is there already, from an earlier sitting. Writes no file where there is nothing to say. Throws
// std::runtime_error (disk).
void add_other_work(const std::string& run_path, const std::vector<std::string>& names);

}  // namespace moetune
