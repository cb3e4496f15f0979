// The functions of NVML that GpuPower uses, with answers that can be foreseen. The bus id says how this GPU
// behaves: "0000:01:00.0" counts energy, "0000:02:00.0" does not, "0000:04:00.0" is divided, "0000:05:00.0"
// comes to rest after work, every other one is unknown.
#include <algorithm>
#include <cstring>
#include <string>

namespace {
constexpr int success = 0;
constexpr int not_supported = 3;
constexpr int not_found = 6;
struct FakeDevice {
  bool counts_energy;
  unsigned is_divided;
  unsigned long long millijoules;
  unsigned milliwatts = 75500;
  unsigned milliwatts_at_rest = 75500;
  unsigned long long hot_ns = 0;
};
struct ViolationTime {
  unsigned long long reference;
  unsigned long long violation;
};
FakeDevice counting{true, 0, 1000};
FakeDevice silent{false, 0, 0};
FakeDevice divided{true, 1, 0};
FakeDevice cooling{true, 0, 0, 456000, 75500};
int users = 0;  // that have opened the library and not yet closed it
}  // namespace

extern "C" {
int nvmlInit_v2() {
  ++users;
  return success;
}
int nvmlShutdown() {
  --users;
  return success;
}
const char* nvmlErrorString(int result) { return result == not_supported ? "Not Supported" : "Not Found"; }
int nvmlSystemGetDriverVersion(char* text, unsigned length) {
  std::strncpy(text, "580.95.05", length);
  return success;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, FakeDevice** device) {
  if (users == 0) return not_found;
  if (std::string(bus_id) == "0000:01:00.0")
    *device = &counting;
  else if (std::string(bus_id) == "0000:02:00.0")
    *device = &silent;
  else if (std::string(bus_id) == "0000:04:00.0")
    *device = &divided;
  else if (std::string(bus_id) == "0000:05:00.0")
    *device = &cooling;
  else
    return not_found;
  return success;
}
int nvmlDeviceGetTotalEnergyConsumption(FakeDevice* device, unsigned long long* millijoules) {
  if (users == 0) return not_found;
  if (!device->counts_energy) return not_supported;
  *millijoules = device->millijoules += 500;
  return success;
}
int nvmlDeviceGetMigMode(FakeDevice* device, unsigned* current, unsigned* pending) {
  if (device == &silent) return not_supported;
  *current = *pending = device->is_divided;
  return success;
}
int nvmlDeviceGetViolationStatus(FakeDevice* device, int policy, ViolationTime* time) {
  if (device == &silent || policy != 1) return not_supported;
  *time = {0, device->hot_ns += 250};
  return success;
}
int nvmlDeviceGetEnforcedPowerLimit(FakeDevice* device, unsigned* milliwatts) {
  if (device == &silent) return not_supported;
  *milliwatts = 700000;
  return success;
}
int nvmlDeviceGetClockInfo(FakeDevice* device, int kind, unsigned* mhz) {
  if (device == &silent || kind != 1) return not_supported;
  *mhz = device->milliwatts > device->milliwatts_at_rest ? 1980 : 345;
  return success;
}
int nvmlDeviceGetMaxClockInfo(FakeDevice* device, int kind, unsigned* mhz) {
  if (device == &silent || kind != 1) return not_supported;
  *mhz = 1980;
  return success;
}
int nvmlDeviceGetPowerUsage(FakeDevice* device, unsigned* milliwatts) {
  *milliwatts = device->milliwatts;
  device->milliwatts = std::max(device->milliwatts_at_rest, device->milliwatts / 10 * 8);
  return success;
}
}
