// The functions of NVML that GpuPower uses, with answers that can be foreseen. The bus id says how this GPU
// behaves: "0000:01:00.0" counts energy, "0000:02:00.0" does not, every other one is unknown.
#include <cstring>
#include <string>

namespace {
constexpr int success = 0;
constexpr int not_supported = 3;
constexpr int not_found = 6;
struct FakeDevice {
  bool counts_energy;
  unsigned long long millijoules;
};
FakeDevice counting{true, 1000};
FakeDevice silent{false, 0};
bool is_open = false;
}  // namespace

extern "C" {
int nvmlInit_v2() {
  is_open = true;
  return success;
}
int nvmlShutdown() {
  is_open = false;
  return success;
}
const char* nvmlErrorString(int result) { return result == not_supported ? "Not Supported" : "Not Found"; }
int nvmlSystemGetDriverVersion(char* text, unsigned length) {
  std::strncpy(text, "580.95.05", length);
  return success;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, FakeDevice** device) {
  if (!is_open) return not_found;
  if (std::string(bus_id) == "0000:01:00.0")
    *device = &counting;
  else if (std::string(bus_id) == "0000:02:00.0")
    *device = &silent;
  else
    return not_found;
  return success;
}
int nvmlDeviceGetTotalEnergyConsumption(FakeDevice* device, unsigned long long* millijoules) {
  if (!device->counts_energy) return not_supported;
  *millijoules = device->millijoules += 500;
  return success;
}
int nvmlDeviceGetPowerUsage(FakeDevice*, unsigned* milliwatts) {
  *milliwatts = 75500;
  return success;
}
}
