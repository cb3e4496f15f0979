// Energy and power of a GPU, from NVML. The library belongs to the driver, so it is opened at run time: the
// program also starts where there is none. Start at GpuPower; what is missing is said, never guessed.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "kernels/gpu_rest.h"

namespace moetune {

class GpuPower {
 public:
  // bus_id: PCI address, see gpu_bus_id(). Never throws: problem() says what is missing.
  explicit GpuPower(const std::string& bus_id, const std::string& library = "libnvidia-ml.so.1");
  ~GpuPower();
  GpuPower(GpuPower&&) noexcept;
  GpuPower& operator=(GpuPower&&) noexcept;

  // Since the driver was loaded. The counter moves in jumps, 20 to 100 ms apart. Empty: problem() says why.
  std::optional<double> joules() const;
  std::optional<double> watts() const;  // now, as the driver averages it
  // For how long clocks were lowered because of heat, since the driver was loaded; empty: the driver does not
  // say.
  std::optional<std::int64_t> slowed_by_heat_ns() const;
  std::optional<double> limit_watts() const;  // that the card is kept to: the lowest of all limits set on it
  CardReading look() const;                   // for power_at_rest()
  const std::string& driver_version() const;  // "580.95.05"; empty: not known
  const std::string& problem() const;         // why joules() has no value; empty: it has one

 private:
  struct Library;
  static bool is_divided(Library& nvml);
  std::unique_ptr<Library> library_;
  std::string driver_version_;
  std::string problem_;
};

}  // namespace moetune
