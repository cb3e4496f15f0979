// What gpu_health.h asks of NVML and NCCL, with answers that can be foreseen: two cards, of which the first
// throttles, is shared and has narrow lanes, and the second answers nothing but its name.
#include <cstring>

namespace {
constexpr int success = 0;
constexpr int not_supported = 3;
struct Device {
  int index;
};
Device cards[2] = {{0}, {1}};

int only_first(const Device* device, unsigned* value, unsigned answer) {
  if (device->index != 0) return not_supported;
  *value = answer;
  return success;
}
}  // namespace

extern "C" {
int nvmlInit_v2() { return success; }
int nvmlShutdown() { return success; }
int nvmlSystemGetDriverVersion(char* text, unsigned length) {
  std::strncpy(text, "580.95.05", length);
  return success;
}
int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = 13010;
  return success;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 2;
  return success;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device** device) {
  *device = &cards[index];
  return success;
}
int nvmlDeviceGetName(Device*, char* text, unsigned length) {
  std::strncpy(text, "NVIDIA Fake", length);
  return success;
}
struct PciInfo {
  char legacy[16];
  unsigned numbers[5];
  char bus_id[32];
};
int nvmlDeviceGetPciInfo_v3(Device* device, PciInfo* pci) {
  if (device->index != 0) return not_supported;
  std::strncpy(pci->bus_id, "00000000:18:00.0", sizeof pci->bus_id);
  return success;
}
int nvmlDeviceGetCurrPcieLinkGeneration(Device* device, unsigned* value) {
  return only_first(device, value, 4);
}
int nvmlDeviceGetCurrPcieLinkWidth(Device* device, unsigned* value) { return only_first(device, value, 8); }
int nvmlDeviceGetMaxPcieLinkGeneration(Device* device, unsigned* value) {
  return only_first(device, value, 5);
}
int nvmlDeviceGetMaxPcieLinkWidth(Device* device, unsigned* value) { return only_first(device, value, 16); }
int nvmlDeviceGetCurrentClocksThrottleReasons(Device* device, unsigned long long* bits) {
  *bits = device->index == 0 ? 0x1 | 0x4 | 0x40 : 0;
  return device->index == 0 ? success : not_supported;
}
int nvmlDeviceGetEccMode(Device* device, unsigned* current, unsigned* pending) {
  if (device->index != 0) return not_supported;
  *current = 1;
  *pending = 0;
  return success;
}
int nvmlDeviceGetTotalEccErrors(Device* device, unsigned type, unsigned counter, unsigned long long* count) {
  if (device->index != 0 || type != 1 || counter != 0) return not_supported;
  *count = 3;
  return success;
}
int nvmlDeviceGetUtilizationRates(Device* device, unsigned* gpu_and_memory) {
  gpu_and_memory[1] = 7;
  return only_first(device, gpu_and_memory, 42);
}
int nvmlDeviceGetMemoryInfo(Device* device, unsigned long long* total_free_used) {
  if (device->index != 0) return not_supported;
  total_free_used[0] = 100;
  total_free_used[1] = 40;
  total_free_used[2] = 60;
  return success;
}
int nvmlDeviceGetPcieThroughput(Device* device, unsigned counter, unsigned* kilobytes) {
  return counter == 1 ? only_first(device, kilobytes, 2'500'000) : not_supported;
}
int nvmlDeviceGetNvLinkState(Device* device, unsigned link, unsigned* active) {
  return link < 4 ? only_first(device, active, link < 3 ? 1 : 0) : not_supported;
}
int nvmlDeviceGetTopologyCommonAncestor(Device* one, Device*, int* level) {
  if (one->index != 0) return not_supported;
  *level = 40;
  return success;
}
int nvmlDeviceGetP2PStatus(Device* one, Device*, int capability, int* status) {
  if (one->index != 0 || capability != 2) return not_supported;
  *status = 6;  // not connected so
  return success;
}
int nvmlDeviceGetTemperature(Device* device, unsigned, unsigned* degrees) {
  return only_first(device, degrees, 88);
}
struct ProcessInfo {
  unsigned pid;
  unsigned long long bytes;
  unsigned instances[2];
};
int nvmlDeviceGetComputeRunningProcesses_v3(Device* device, unsigned* count, ProcessInfo* infos) {
  if (device->index != 0) return not_supported;
  *count = 2;
  infos[0] = {11, 5000, {0, 0}};
  infos[1] = {12, ~0ULL, {0, 0}};
  return success;
}
int nvmlSystemGetProcessName(unsigned pid, char* name, unsigned length) {
  if (pid != 11) return not_supported;
  std::strncpy(name, "/usr/bin/python3", length);
  return success;
}
int ncclGetVersion(int* version) {
  *version = 22803;
  return success;
}
}
