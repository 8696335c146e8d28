#include "kernels/cuda/driver.h"

#include <algorithm>
#include <cctype>
#include <sstream>

#include "kernels/error.h"

namespace paceline {
namespace {

/// "525.105.17 (CUDA 12.0)", as far as it is known.
std::string driver_text(const DriverStatus& status) {
  const std::string cuda = status.supports > 0 ? fmt::format("CUDA {}", cuda_version_text(status.supports)) : "";
  if (status.release.empty()) return cuda.empty() ? "" : fmt::format("of {}", cuda);
  return cuda.empty() ? status.release : fmt::format("{} ({})", status.release, cuda);
}

std::string visible_text(const DriverStatus& status) {
  return status.visible ? fmt::format(" (CUDA_VISIBLE_DEVICES is \"{}\")", *status.visible) : "";
}

}  // namespace

std::string cuda_version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

int oldest_driver_branch(int toolkit) {
  const int major = toolkit / 1000;
  return major >= 13 ? 580 : major == 12 ? 525 : 450;
}

std::string driver_release(std::string_view version_file) {
  std::istringstream words{std::string(version_file)};
  for (std::string word; words >> word;) {
    const bool numeric =
        std::all_of(word.begin(), word.end(), [](unsigned char c) { return std::isdigit(c) || c == '.'; });
    if (numeric && word.find('.') != std::string::npos) return word;
  }
  return "";
}

Trouble driver_trouble(const DriverStatus& status) {
  switch (status.state) {
    case DriverState::works: break;
    case DriverState::not_built:
      return {"this build has no CUDA backend", "build with `cmake --preset cuda` or use backend cpu"};
    case DriverState::absent: return {"found no NVIDIA driver", "install one, or use backend cpu"};
    case DriverState::too_old:
      return {fmt::format("driver {} is older than the toolkit's {}", driver_text(status),
                          cuda_version_text(status.toolkit)),
              fmt::format("install driver {} or newer, or use backend cpu", oldest_driver_branch(status.toolkit))};
    case DriverState::no_device:
      return {"found no CUDA device" + visible_text(status),
              status.visible ? "name devices that `nvidia-smi -L` lists in CUDA_VISIBLE_DEVICES, or unset it"
                             : "check with `nvidia-smi -L` that this machine or container has one, or use backend cpu"};
    case DriverState::not_started:
      return {fmt::format("the driver is not ready: {}", status.words),
              "start the fabric manager (`systemctl start nvidia-fabricmanager`), or use backend cpu"};
    case DriverState::mismatched:
      return {fmt::format("the driver's library and kernel module differ: {}", status.words),
              "restart the machine after a driver update, or use backend cpu"};
    case DriverState::broken:
      return {status.words.empty() ? "the driver gives no reason" : status.words,
              "check the driver with nvidia-smi, or use backend cpu"};
  }
  PACELINE_CHECK(status.state != DriverState::works, "trouble of a driver in state {}", int(status.state));
  return {};
}

}  // namespace paceline
