#pragma once
// Whether a machine's driver carries this build's CUDA, and the words for when it does not: one place for the errors of
// make_cuda_backend and for `runexp doctor`. Without CUDA headers, and part of every build.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace paceline {

enum class DriverState : uint8_t {
  works,
  not_built,    // this build has no CUDA backend
  absent,       // no driver
  too_old,      // for the toolkit
  no_device,    // a driver, and no device that this process may see
  not_started,  // the service that joins the GPUs of the machine is not running
  mismatched,   // the driver's library and its kernel module are of two releases
  broken,       // anything else; see words
};

struct DriverStatus {
  DriverState state = DriverState::not_built;
  int toolkit = 0;                     // that this build was made with: 1000 · major + 10 · minor
  int supports = 0;                    // newest CUDA of the driver, likewise; 0: no driver
  std::string release;                 // of the driver, "580.65.06"; empty: not known
  std::optional<std::string> visible;  // CUDA_VISIBLE_DEVICES, where it is set
  std::string words;                   // of the CUDA runtime
};

/// What is wrong and the one thing that helps, a line each, without a full stop.
struct Trouble {
  std::string what, fix;
};

/// REQUIRES status.state != DriverState::works.
Trouble driver_trouble(const DriverStatus& status);

/// "13.0" of 13000.
std::string cuda_version_text(int version);

/// First driver branch that runs programs of a toolkit, by its major version (CUDA Toolkit release notes, "CUDA Toolkit
/// and Minimum Required NVIDIA Driver Version for CUDA Minor Version Compatibility").
int oldest_driver_branch(int toolkit);

/// The release in the text of /proc/driver/nvidia/version; empty when there is none.
std::string driver_release(std::string_view version_file);

}  // namespace paceline
