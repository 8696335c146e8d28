// What the doctor says about GPUs.

#include <algorithm>

#include <fmt/format.h>

#include "engine/util/bytes.h"
#include "experiments/config/gpu_code.h"
#include "experiments/doctor/doctor.h"

namespace paceline {
namespace {

std::string device_name(int index) { return fmt::format("cuda:{}", index); }

/// Nothing when there are devices to look at.
std::optional<Check> driver_check(const DriverStatus& driver) {
  if (driver.state == DriverState::works) return std::nullopt;
  const Trouble trouble = driver_trouble(driver);
  switch (driver.state) {
    case DriverState::not_built:
    case DriverState::absent: return Check{"gpu", "GPUs", Finding::note, "not used: " + trouble.what};
    case DriverState::no_device:  // hidden by choice, or named and not there
      if (!driver.visible || driver.visible->empty() || *driver.visible == "-1")
        return Check{"gpu", "GPUs", Finding::note, "not used: " + trouble.what};
      return Check{"gpu", "GPUs", Finding::weak, trouble.what, trouble.fix};
    default: return Check{"gpu", "driver", Finding::broken, trouble.what, trouble.fix, ExitCode::device};
  }
}

Check device_check(const CudaDeviceFacts& device, const std::string& architectures) {
  const std::string name = device_name(device.index);
  if (!device.error.empty())
    return {"gpu",
            name,
            Finding::broken,
            device.error,
            "see `nvidia-smi` and `dmesg | grep -i xid`, or leave it out with engine.devices or CUDA_VISIBLE_DEVICES",
            ExitCode::device};
  if (device.prohibited)
    return {"gpu",
            name,
            Finding::broken,
            device.name + ": its compute mode lets no program on",
            fmt::format("sudo nvidia-smi -i {} -c DEFAULT", device.pci),
            ExitCode::device};
  const double free = double(device.free_bytes) / kGiB, total = double(device.total_bytes) / kGiB;
  const std::string text = fmt::format(
      "{}, compute capability {}.{}, {} SMs{}{}, ECC {}, {:.1f} of {:.1f} GiB free", device.name, device.major,
      device.minor, device.num_sms, device.sm_clock_mhz > 0 ? fmt::format(", up to {} MHz", device.sm_clock_mhz) : "",
      device.memory_clock_mhz > 0 ? fmt::format(", memory {} MHz", device.memory_clock_mhz) : "",
      device.ecc ? "on" : "off", free, total);
  if (const std::optional<std::string> refused = refused_gpu(architectures, device))
    return {"gpu",
            name,
            Finding::broken,
            *refused,
            "build for it (-DCMAKE_CUDA_ARCHITECTURES) where it is new enough, leave it out with engine.devices or "
            "CUDA_VISIBLE_DEVICES, or use backend cpu",
            ExitCode::device};
  constexpr double kOthersGiB = 4.0;  // beyond what a context takes
  if (total - free > kOthersGiB)
    return {"gpu", name, Finding::weak, text + ": others use it",
            "end what `nvidia-smi` lists on it, or choose another"};
  return {"gpu", name, Finding::good, text};
}

void add_rates(const CudaDeviceFacts& device, const GpuRates& rates, std::vector<Check>& checks) {
  const std::string name = device_name(device.index);
  if (rates.memory.read_bytes_s > 0)
    checks.push_back({"gpu", name + " memory", Finding::good,
                      fmt::format("reads {:.2f} TB/s, copies {:.2f} TB/s (read + written)",
                                  rates.memory.read_bytes_s * 1e-12, rates.memory.copy_bytes_s * 1e-12)});
  const auto matrices = [&](Numerics numerics, double flops_s) {
    return fmt::format("{:.0f} TFLOP/s in {} of {}³", flops_s * 1e-12, matrix_name(numerics), rates.matrix_size);
  };
  if (rates.matrix_flops_s > 0)
    checks.push_back({"gpu", name + " matrices", Finding::good, matrices(Numerics::strict, rates.matrix_flops_s)});
  if (rates.fast_matrix_flops_s > 0)
    checks.push_back(
        {"gpu", name + " matrices, fast", Finding::good, matrices(Numerics::fast, rates.fast_matrix_flops_s)});
  if (!rates.fast_error.empty())
    checks.push_back(
        {"gpu", name + " matrices, fast", Finding::note, "engine.numerics fast does not run: " + rates.fast_error});
  if (!rates.error.empty())
    checks.push_back({"gpu", name + " measured", Finding::broken, rates.error,
                      "free the device (`nvidia-smi`), or leave it out with engine.devices", ExitCode::device});
}

/// "cuda:0 and cuda:1", for all pairs of which one does not reach the other.
std::vector<std::string> apart(const CudaFacts& cuda) {
  std::vector<std::string> pairs;
  const size_t count = cuda.devices.size();
  for (size_t a = 0; a < count; ++a)
    for (size_t b = a + 1; b < count; ++b)
      if (!cuda.reaches[a * count + b] || !cuda.reaches[b * count + a])
        pairs.push_back(fmt::format("cuda:{} and cuda:{}", a, b));
  return pairs;
}

void add_peers(const DoctorFacts& facts, std::vector<Check>& checks) {
  const size_t count = facts.cuda.devices.size();
  if (count < 2) return;
  const std::vector<std::string> pairs = apart(facts.cuda);
  if (pairs.empty())
    checks.push_back({"gpu", "peer access", Finding::good, fmt::format("all {} reach each other's memory", count)});
  else
    checks.push_back(
        {"gpu", "peer access", Finding::weak, fmt::format("none between {}: sums go over NCCL", fmt::join(pairs, ", ")),
         "choose devices that reach each other with engine.devices; set NCCL_P2P_DISABLE=1 only if NCCL hangs"});
  for (const GpuLink& link : facts.links) {
    const std::string name = fmt::format("cuda:{} to cuda:{}", link.from, link.to);
    if (link.error.empty())
      checks.push_back(
          {"gpu", name, Finding::good,
           fmt::format("{:.0f} GB/s, {:.1f} µs a small copy", link.rate.bytes_s * 1e-9, link.rate.latency_s * 1e6)});
    else
      checks.push_back({"gpu", name, Finding::broken, link.error,
                        "see `dmesg | grep -i xid`, and choose other devices with engine.devices", ExitCode::device});
  }
  const size_t all_links = count * (count - 1);
  if (facts.links.size() < all_links)
    checks.push_back({"gpu", "links", Finding::note,
                      fmt::format("{} of {} measured in the time there is", facts.links.size(), all_links)});
  if (facts.nccl.empty())
    checks.push_back({"gpu", "NCCL", Finding::broken, "this build has none: several ranks cannot run on GPUs",
                      "sudo apt-get install -y libnccl-dev, and build again", ExitCode::device});
  else
    checks.push_back({"gpu", "NCCL", Finding::good, facts.nccl});
}

}  // namespace

std::vector<Check> gpu_checks(const DoctorFacts& facts) {
  if (const auto check = driver_check(facts.cuda.driver)) return {*check};
  const DriverStatus& driver = facts.cuda.driver;
  std::vector<Check> checks;
  checks.push_back({"gpu", "driver", Finding::good,
                    fmt::format("{}CUDA {} (toolkit {}){}", driver.release.empty() ? "" : driver.release + ", ",
                                cuda_version_text(driver.supports), cuda_version_text(driver.toolkit),
                                driver.visible ? fmt::format(", CUDA_VISIBLE_DEVICES \"{}\"", *driver.visible) : "")});
  for (size_t i = 0; i < facts.cuda.devices.size(); ++i) {
    checks.push_back(device_check(facts.cuda.devices[i], facts.cuda.architectures));
    if (checks.back().finding == Finding::broken) continue;
    if (i < facts.gpus.size())
      add_rates(facts.cuda.devices[i], facts.gpus[i], checks);
    else
      checks.push_back({"gpu", device_name(int(i)) + " rates", Finding::note, "not measured: no time left"});
  }
  add_peers(facts, checks);
  return checks;
}

}  // namespace paceline
