#include "experiments/doctor/doctor.h"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/util/bytes.h"
#include "engine/util/counted.h"
#include "engine/util/json_io.h"
#include "engine/util/printable.h"
#include "experiments/config/devices.h"
#include "experiments/report/text/text.h"
#include "experiments/report/text/text_lines.h"
#include "experiments/results/build_info.h"

namespace paceline {
namespace {

using nlohmann::json;

/// Adds the checks of one section.
class Findings {
 public:
  Findings(const char* section, std::vector<Check>& checks) : section_(section), checks_(checks) {}

  void good(const std::string& name, const std::string& text) { add({section_, name, Finding::good, text}); }
  void note(const std::string& name, const std::string& text) { add({section_, name, Finding::note, text}); }
  void weak(const std::string& name, const std::string& text, const std::string& fix) {
    add({section_, name, Finding::weak, text, fix});
  }
  void broken(const std::string& name, const std::string& text, const std::string& fix,
              ExitCode code = ExitCode::device) {
    add({section_, name, Finding::broken, text, fix, code});
  }
  /// Weak where `is_weak`, for the reason `why`; else good.
  void judge(const std::string& name, const std::string& text, bool is_weak, const char* why, const char* fix) {
    is_weak ? weak(name, text + ": " + why, fix) : good(name, text);
  }

 private:
  void add(Check check) { checks_.push_back(std::move(check)); }

  const char* section_;
  std::vector<Check>& checks_;
};

std::string isa_list(const std::vector<Isa>& isas) {
  std::vector<std::string> names;
  for (const Isa isa : isas) names.push_back(isa_name(isa));
  return fmt::format("{}", fmt::join(names, " "));
}

/// A value of the environment as text; empty where it is null.
std::string known(const json& environment, const char* key) {
  const auto found = environment.find(key);
  return found == environment.end() || found->is_null() ? "" : bare_text(*found);
}

double number(const json& environment, const char* key) {
  return std::strtod(known(environment, key).c_str(), nullptr);
}

void add_build(const DoctorFacts& facts, Findings build) {
  const std::string type = known(facts.environment, "build_type");
  build.judge("program",
              fmt::format("paceline {}, {}, compiler {}", kProgramVersion, type, known(facts.environment, "compiler")),
              type != "release", "its times mean nothing",
              "build with `cmake --preset release` or `cmake --preset cuda`");
  const Isa best = facts.of_machine.empty() ? Isa::scalar : facts.of_machine.back();
  const std::string sets = "built for " + isa_list(facts.built);
  if (std::find(facts.built.begin(), facts.built.end(), best) != facts.built.end())
    build.good("instruction sets", sets);
  else
    build.weak("instruction sets", fmt::format("{}; this machine has {} too", sets, isa_name(best)),
               "build with a newer compiler (GCC 12 or newer knows all of them)");
  if (facts.cuda.driver.state == DriverState::not_built)
    build.note("CUDA", "not in this build (cmake --preset cuda)");
  else
    build.good("CUDA",
               fmt::format("toolkit {} for {}, {}", cuda_version_text(facts.cuda.driver.toolkit),
                           facts.cuda.architectures, facts.nccl.empty() ? "without NCCL" : "NCCL " + facts.nccl));
}

void add_machine(const DoctorFacts& facts, Findings machine) {
  machine.good("processor", fmt::format("{}, uses {}", known(facts.environment, "cpu_model"), isa_name(facts.used)));
  const std::string quota =
      facts.cores.quota ? fmt::format("a cgroup quota of {:.2g}", *facts.cores.quota) : std::string("no cgroup quota");
  machine.judge("cores", fmt::format("{} usable (affinity {}, {})", facts.usable_cores, facts.cores.affinity, quota),
                facts.cores.quota && *facts.cores.quota < 1.0, "less than one core, and times will jump",
                "give the container one whole core or more");

  const double load = number(facts.environment, "load_average");
  machine.judge("load",
                fmt::format("{:.2f} runnable over the last minute, {}", load, counted(facts.usable_cores, "core")),
                load > 0.5 * facts.usable_cores, "others are at work, and times will scatter",
                "end what else runs (see `top`), or measure later");

  const double total = number(facts.environment, "memory_total_bytes");
  const double available = number(facts.environment, "memory_available_bytes");
  const double limit = double(facts.memory_limit_bytes);
  machine.judge(
      "memory",
      fmt::format("{:.1f} GiB may be used{}, {:.1f} GiB are available", limit / kGiB,
                  limit < total ? fmt::format(" (cgroup) of {:.1f} GiB", total / kGiB) : "", available / kGiB),
      std::min(limit, available) < kGiB, "too few for most models",
      "raise the container's limit, or end what holds the memory");

  const CpuRates& cpu = facts.cpu;
  const std::string threads = counted(cpu.threads, "thread");
  const auto rate = [&](const char* name, double per_s, const std::string& text) {
    per_s > 0 ? machine.good(name, text) : machine.note(name, "not measured: needs AVX2");
  };
  rate("memory read", cpu.read_bytes_s,
       fmt::format("{:.1f} GB/s over {} MiB with {}", cpu.read_bytes_s * 1e-9, facts.cpu_read_bytes >> 20, threads));
  rate("arithmetic", cpu.fma_flops_s,
       fmt::format("{:.0f} GFLOP/s of float32 FMAs{} with {}", cpu.fma_flops_s * 1e-9,
                   cpu.dot_flops_s > 0 ? fmt::format(", {:.0f} of bfloat16 dot products", cpu.dot_flops_s * 1e-9) : "",
                   threads));
}

void add_files(const char* what, const std::vector<FoundFile>& files, Findings data) {
  std::vector<std::string> readable;
  for (const FoundFile& file : files)
    if (file.error.empty()) readable.push_back(file.name);
  if (readable.empty())
    data.weak(what, "none found where configurations look for builtin: names",
              "run in the repository, or write paths of your own into configurations");
  else
    data.good(what, fmt::format("{}: {}", readable.size(), fmt::join(readable, ", ")));
  for (const FoundFile& file : files)
    if (!file.error.empty()) data.weak(file.name, file.error, "fetch it again, or take it out of the folder");
}

void add_results(const ResultsPlace& place, Findings data) {
  constexpr double kRoom = 1e9;
  const std::string room = fmt::format("{:.1f} GB free", double(place.free_bytes) * 1e-9);
  if (!place.error.empty())
    data.broken("results", place.error, "name a folder of yours with --results DIR", ExitCode::store);
  else if (double(place.free_bytes) < kRoom)
    data.weak("results", fmt::format("{}: {}", place.folder, room),
              "make room, or name a folder on another disk with --results DIR");
  else
    data.good("results", fmt::format("{} can be written, {}", place.folder, room));
}

/// Whether there are devices to look at.
bool add_driver(const DriverStatus& driver, Findings gpu) {
  if (driver.state == DriverState::works) {
    gpu.good("driver",
             fmt::format("{}CUDA {} (toolkit {}){}", driver.release.empty() ? "" : driver.release + ", ",
                         cuda_version_text(driver.supports), cuda_version_text(driver.toolkit),
                         driver.visible ? fmt::format(", CUDA_VISIBLE_DEVICES \"{}\"", *driver.visible) : ""));
    return true;
  }
  const Trouble trouble = driver_trouble(driver);
  const bool is_absent = driver.state == DriverState::not_built || driver.state == DriverState::absent;
  const bool is_hidden = !driver.visible || driver.visible->empty() || *driver.visible == "-1";
  if (is_absent || (driver.state == DriverState::no_device && is_hidden))
    gpu.note("GPUs", "not used: " + trouble.what);
  else if (driver.state == DriverState::no_device)  // named and not there
    gpu.weak("GPUs", trouble.what, trouble.fix);
  else
    gpu.broken("driver", trouble.what, trouble.fix);
  return false;
}

/// Whether it can run.
bool add_device(const CudaDeviceFacts& device, const std::string& architectures, Findings gpu) {
  const std::string name = fmt::format("cuda:{}", device.index);
  const double free = double(device.free_bytes) / kGiB, total = double(device.total_bytes) / kGiB;
  if (!device.error.empty()) {
    gpu.broken(
        name, device.error,
        "see `nvidia-smi` and `dmesg | grep -i xid`, or leave it out with engine.devices or CUDA_VISIBLE_DEVICES");
  } else if (device.prohibited) {
    gpu.broken(name, device.name + ": its compute mode lets no program on",
               fmt::format("sudo nvidia-smi -i {} -c DEFAULT", device.pci));
  } else if (const std::optional<std::string> refused = refused_gpu(architectures, device)) {
    gpu.broken(name, *refused,
               "build for it (-DCMAKE_CUDA_ARCHITECTURES) where it is new enough, leave it out with engine.devices or "
               "CUDA_VISIBLE_DEVICES, or use backend cpu");
  } else {
    constexpr double kOthersGiB = 4.0;  // beyond what a context takes
    gpu.judge(name,
              fmt::format("{}, compute capability {}.{}, {} SMs{}{}, ECC {}, {:.1f} of {:.1f} GiB free", device.name,
                          device.major, device.minor, device.num_sms,
                          device.sm_clock_mhz > 0 ? fmt::format(", up to {} MHz", device.sm_clock_mhz) : "",
                          device.memory_clock_mhz > 0 ? fmt::format(", memory {} MHz", device.memory_clock_mhz) : "",
                          device.ecc ? "on" : "off", free, total),
              total - free > kOthersGiB, "others use it", "end what `nvidia-smi` lists on it, or choose another");
    return true;
  }
  return false;
}

void add_rates(const std::string& name, const GpuRates& rates, Findings gpu) {
  if (rates.memory.read_bytes_s > 0)
    gpu.good(name + " memory", fmt::format("reads {:.2f} TB/s, copies {:.2f} TB/s (read + written)",
                                           rates.memory.read_bytes_s * 1e-12, rates.memory.copy_bytes_s * 1e-12));
  const auto matrices = [&](const char* what, Numerics numerics, double flops_s) {
    if (flops_s > 0)
      gpu.good(name + what,
               fmt::format("{:.0f} TFLOP/s in {} of {}³", flops_s * 1e-12, matrix_name(numerics), rates.matrix_size));
  };
  matrices(" matrices", Numerics::strict, rates.matrix_flops_s);
  matrices(" matrices, fast", Numerics::fast, rates.fast_matrix_flops_s);
  if (!rates.fast_error.empty())
    gpu.note(name + " matrices, fast", "engine.numerics fast does not run: " + rates.fast_error);
  if (!rates.error.empty())
    gpu.broken(name + " measured", rates.error, "free the device (`nvidia-smi`), or leave it out with engine.devices");
}

void add_peers(const DoctorFacts& facts, Findings gpu) {
  const CudaFacts& cuda = facts.cuda;
  const size_t count = cuda.devices.size();
  if (count < 2) return;
  std::vector<std::string> apart;  // pairs of which one does not reach the other
  for (size_t a = 0; a < count; ++a)
    for (size_t b = a + 1; b < count; ++b)
      if (!cuda.reaches[a * count + b] || !cuda.reaches[b * count + a])
        apart.push_back(fmt::format("cuda:{} and cuda:{}", a, b));
  if (apart.empty())
    gpu.good("peer access", fmt::format("all {} reach each other's memory", count));
  else
    gpu.weak("peer access", fmt::format("none between {}: sums go over NCCL", fmt::join(apart, ", ")),
             "choose devices that reach each other with engine.devices; set NCCL_P2P_DISABLE=1 only if NCCL hangs");
  for (const GpuLink& link : facts.links) {
    const std::string name = fmt::format("cuda:{} to cuda:{}", link.from, link.to);
    if (link.error.empty())
      gpu.good(name,
               fmt::format("{:.0f} GB/s, {:.1f} µs a small copy", link.rate.bytes_s * 1e-9, link.rate.latency_s * 1e6));
    else
      gpu.broken(name, link.error, "see `dmesg | grep -i xid`, and choose other devices with engine.devices");
  }
  const size_t all_links = count * (count - 1);
  if (facts.links.size() < all_links)
    gpu.note("links", fmt::format("{} of {} measured in the time there is", facts.links.size(), all_links));
  if (facts.nccl.empty())
    gpu.broken("NCCL", "this build has none: several ranks cannot run on GPUs",
               "sudo apt-get install -y libnccl-dev, and build again");
  else
    gpu.good("NCCL", facts.nccl);
}

/// By Finding.
struct FindingText {
  const char* name;
  const char* mark;
};
constexpr FindingText kFindings[] = {{"good", "✓"}, {"note", "–"}, {"weak", "✗"}, {"broken", "✗"}};

json text_or_null(const std::string& text) { return text.empty() ? json(nullptr) : json(text); }

json rate(double value) { return value > 0 ? json(value) : json(nullptr); }

json gpu_json(const CudaDeviceFacts& device, const GpuRates& rates) {
  return {{"index", device.index},
          {"name", device.name},
          {"pci", device.pci},
          {"compute_capability", fmt::format("{}.{}", device.major, device.minor)},
          {"num_sms", device.num_sms},
          {"sm_clock_mhz", device.sm_clock_mhz},
          {"memory_clock_mhz", device.memory_clock_mhz},
          {"ecc", device.ecc},
          {"memory_free_bytes", device.free_bytes},
          {"memory_total_bytes", device.total_bytes},
          {"read_bytes_s", rate(rates.memory.read_bytes_s)},
          {"copy_bytes_s", rate(rates.memory.copy_bytes_s)},
          {"matrix_flops_s", rate(rates.matrix_flops_s)},
          {"fast_matrix_flops_s", rate(rates.fast_matrix_flops_s)},
          {"matrix_size", rates.matrix_size},
          {"fast_error", rates.fast_error},
          {"error", device.error.empty() ? rates.error : device.error}};
}

}  // namespace

const char* to_string(Finding finding) { return kFindings[size_t(finding)].name; }

std::vector<Check> gpu_checks(const DoctorFacts& facts) {
  std::vector<Check> checks;
  Findings gpu("gpu", checks);
  if (!add_driver(facts.cuda.driver, gpu)) return checks;
  for (size_t i = 0; i < facts.cuda.devices.size(); ++i) {
    if (!add_device(facts.cuda.devices[i], facts.cuda.architectures, gpu)) continue;
    if (i < facts.gpus.size())
      add_rates(fmt::format("cuda:{}", facts.cuda.devices[i].index), facts.gpus[i], gpu);
    else
      gpu.note(fmt::format("cuda:{} rates", i), "not measured: no time left");
  }
  add_peers(facts, gpu);
  return checks;
}

std::vector<Check> doctor_checks(const DoctorFacts& facts) {
  std::vector<Check> checks;
  Findings data("data", checks);
  add_build(facts, {"build", checks});
  add_machine(facts, {"machine", checks});
  add_files("models", facts.models, data);
  add_files("datasets", facts.datasets, data);
  add_results(facts.results, data);
  for (Check& check : gpu_checks(facts)) checks.push_back(std::move(check));
  return checks;
}

ExitCode doctor_exit_code(const std::vector<Check>& checks) {
  for (const Check& check : checks)
    if (check.finding == Finding::broken) return check.code;
  return ExitCode::ok;
}

std::string doctor_text(const std::vector<Check>& checks, int columns) {
  int width = 0, crosses = 0;
  for (const Check& check : checks) width = std::max(width, display_width(check.name));
  std::string out, section;
  for (const Check& check : checks) {
    if (check.section != section) out += (section.empty() ? "" : "\n") + check.section + "\n";
    section = check.section;
    const std::string padding(size_t(width - display_width(check.name)), ' ');
    const int hang = width + 6;
    out += wrapped_text(fmt::format("  {} {}{}  {}", kFindings[size_t(check.finding)].mark, check.name, padding,
                                    message_text(check.text)),
                        columns, hang);
    if (check.fix.empty()) continue;
    ++crosses;
    out += wrapped_text(fmt::format("{}fix: {}", std::string(size_t(hang), ' '), message_text(check.fix)), columns,
                        hang + 5);
  }
  return out + (crosses == 0 ? "\nnothing to fix\n" : fmt::format("\n{} to fix\n", counted(crosses, "problem")));
}

json doctor_json(const DoctorFacts& facts, const std::vector<Check>& checks) {
  json lines = json::array(), gpus = json::array(), links = json::array(), peers = json::array();
  for (const Check& check : checks)
    lines.push_back({{"section", check.section},
                     {"name", check.name},
                     {"finding", to_string(check.finding)},
                     {"text", check.text},
                     {"fix", check.fix.empty() ? json(nullptr) : json(check.fix)},
                     {"exit_code", int(check.code)}});
  const size_t count = facts.cuda.devices.size();
  for (size_t i = 0; i < count; ++i) {
    gpus.push_back(gpu_json(facts.cuda.devices[i], i < facts.gpus.size() ? facts.gpus[i] : GpuRates{}));
    json row = json::array();
    for (size_t to = 0; to < count; ++to) row.push_back(facts.cuda.reaches[i * count + to] != 0);
    peers.push_back(row);
  }
  for (const GpuLink& link : facts.links)
    links.push_back({{"from", link.from},
                     {"to", link.to},
                     {"bytes_s", rate(link.rate.bytes_s)},
                     {"latency_s", rate(link.rate.latency_s)},
                     {"error", link.error}});
  const DriverStatus& driver = facts.cuda.driver;
  json built = json::array();
  for (const Isa isa : facts.built) built.push_back(isa_name(isa));
  return {{"schema", "paceline.doctor"},
          {"schema_version", 1},
          {"version", kProgramVersion},
          {"exit_code", int(doctor_exit_code(checks))},
          {"checks", lines},
          {"environment", facts.environment},
          {"build",
           {{"isa", built},
            {"cuda_toolkit", driver.toolkit > 0 ? json(cuda_version_text(driver.toolkit)) : json(nullptr)},
            {"cuda_architectures", text_or_null(facts.cuda.architectures)},
            {"nccl", text_or_null(facts.nccl)}}},
          {"cores",
           {{"usable", facts.usable_cores},
            {"affinity", facts.cores.affinity},
            {"cgroup_quota", facts.cores.quota ? json(*facts.cores.quota) : json(nullptr)}}},
          {"memory_limit_bytes", facts.memory_limit_bytes},
          {"cpu",
           {{"threads", facts.cpu.threads},
            {"read_bytes_s", rate(facts.cpu.read_bytes_s)},
            {"fma_flops_s", rate(facts.cpu.fma_flops_s)},
            {"dot_flops_s", rate(facts.cpu.dot_flops_s)}}},
          {"driver",
           {{"release", text_or_null(driver.release)},
            {"cuda", driver.supports > 0 ? json(cuda_version_text(driver.supports)) : json(nullptr)}}},
          {"gpus", gpus},
          {"peer_access", peers},
          {"links", links}};
}

}  // namespace paceline
