#pragma once
// Time on the device.

#include <functional>

struct CUstream_st;

namespace paceline {

/// Seconds that the device takes for `calls` of `call`, which puts work into the stream of the current device. Waits
/// for them. Throws Error(device).
double device_seconds(CUstream_st* stream, int calls, const std::function<void()>& call);

}  // namespace paceline
