// One study at a time on a GPU: a lock that the kernel keeps and gives back when its holder ends, however it
// ends. Start at DeviceLock::try_take() and wait_for_device().
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "tuner/descriptor.h"

namespace moetune {

class DeviceLock {
 public:
  // Empty: somebody else holds it. name: of the device, one for all users of the machine ("0000:01:00.0").
  // holder: what the others are told ("moetune tune"). Throws std::runtime_error when no lock can be made
  // there.
  static std::optional<DeviceLock> try_take(const std::string& name, const std::string& holder,
                                            const std::string& folder = usual_folder);
  // Who holds it, as far as that is written there: "moetune tune, process 4711"; empty: not known.
  static std::string holder_of(const std::string& name, const std::string& folder = usual_folder);

  // Not TMPDIR, which differs between users. A container with a /tmp of its own has locks of its own.
  static constexpr auto usual_folder = "/tmp";

 private:
  explicit DeviceLock(Descriptor descriptor) : descriptor_(std::move(descriptor)) {}
  Descriptor descriptor_;
};

// Waits until it is free, and says once for whom: on_wait("moetune tune, process 4711"). is_done is asked
// several times a second; true ends the wait without the lock.
std::optional<DeviceLock> wait_for_device(const std::string& name, const std::string& holder,
                                          const std::function<void(const std::string& other)>& on_wait,
                                          const std::function<bool()>& is_done,
                                          const std::string& folder = DeviceLock::usual_folder);

}  // namespace moetune
