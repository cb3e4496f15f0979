#include "tuner/utc_time.h"

#include <chrono>
#include <ctime>

#include <fmt/chrono.h>

namespace moetune {
namespace {
std::tm now() { return fmt::gmtime(std::chrono::system_clock::to_time_t(std::chrono::system_clock::now())); }
}  // namespace

std::string utc_now() { return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", now()); }
std::string utc_now_compact() { return fmt::format("{:%Y%m%dT%H%M%SZ}", now()); }

}  // namespace moetune
