#include "tuner/other_work_file.h"

#include <algorithm>
#include <fstream>

#include "tuner/durable_file.h"
#include "tuner/printable.h"

namespace moetune {
namespace {

constexpr std::size_t most_names = 100;  // a file may say anything

std::string file_in(const std::string& run_path) { return run_path + "/other_work.txt"; }

}  // namespace

std::vector<std::string> read_other_work(const std::string& run_path) {
  std::vector<std::string> names;
  std::ifstream file(file_in(run_path));
  for (std::string line; names.size() < most_names && std::getline(file, line);)
    if (!line.empty()) names.push_back(printable(line));
  return names;
}

void add_other_work(const std::string& run_path, const std::vector<std::string>& names) {
  std::vector<std::string> all = read_other_work(run_path);
  const std::size_t known = all.size();
  for (const std::string& name : names)
    if (std::ranges::find(all, name) == all.end()) all.push_back(name);
  if (all.size() == known) return;
  std::string text;
  for (const std::string& name : all) text += printable(name) + "\n";
  write_file_atomically(file_in(run_path), text);
}

}  // namespace moetune
