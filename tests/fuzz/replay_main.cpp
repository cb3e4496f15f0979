// Runs one fuzz target over saved inputs without a fuzzer: `NAME_replay FILE|FOLDER...`. Every test run does
// so over tests/fuzz/corpus/NAME. Finding no input at all is a failure, so that a moved corpus cannot pass
// unnoticed.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

int inputs_run = 0;

void run_file(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(stream), {}};
  // A copy of exact size on the heap: with AddressSanitizer one byte too far is a finding.
  const std::vector<std::uint8_t> input(bytes.begin(), bytes.end());
  std::fprintf(stderr, "%s\n", path.c_str());
  LLVMFuzzerTestOneInput(input.data(), input.size());
  ++inputs_run;
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::filesystem::path path = argv[i];
    if (!std::filesystem::is_directory(path)) {
      run_file(path);
      continue;
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path))
      if (entry.is_regular_file()) run_file(entry.path());
  }
  std::printf("%d inputs\n", inputs_run);
  return inputs_run > 0 ? 0 : 1;
}
