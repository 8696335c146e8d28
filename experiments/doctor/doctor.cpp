#include "experiments/doctor/doctor.h"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include "engine/util/bytes.h"
#include "engine/util/counted.h"
#include "engine/util/json_io.h"
#include "engine/util/printable.h"
#include "experiments/report/text/text.h"
#include "experiments/report/text/text_lines.h"
#include "experiments/results/build_info.h"

namespace paceline {
namespace {

std::string isa_list(const std::vector<Isa>& isas) {
  std::vector<std::string> names;
  for (const Isa isa : isas) names.push_back(isa_name(isa));
  return fmt::format("{}", fmt::join(names, " "));
}

/// A value of the environment as text; empty where it is null.
std::string known(const nlohmann::json& environment, const char* key) {
  const auto found = environment.find(key);
  if (found == environment.end() || found->is_null()) return "";
  return bare_text(*found);
}

double number(const nlohmann::json& environment, const char* key) {
  const auto found = environment.find(key);
  if (found == environment.end()) return 0.0;
  if (found->is_number()) return found->get<double>();
  return found->is_string() ? std::strtod(found->get<std::string>().c_str(), nullptr) : 0.0;
}

void add_build(const DoctorFacts& facts, std::vector<Check>& checks) {
  const std::string type = known(facts.environment, "build_type");
  const std::string text =
      fmt::format("paceline {}, {}, compiler {}", kProgramVersion, type, known(facts.environment, "compiler"));
  if (type == "release")
    checks.push_back({"build", "program", Finding::good, text});
  else
    checks.push_back({"build", "program", Finding::weak, text + ": its times mean nothing",
                      "build with `cmake --preset release` or `cmake --preset cuda`"});

  const Isa best = facts.of_machine.empty() ? Isa::scalar : facts.of_machine.back();
  const bool has_best = std::find(facts.built.begin(), facts.built.end(), best) != facts.built.end();
  const std::string sets = "built for " + isa_list(facts.built);
  if (has_best)
    checks.push_back({"build", "instruction sets", Finding::good, sets});
  else
    checks.push_back({"build", "instruction sets", Finding::weak,
                      fmt::format("{}; this machine has {} too", sets, isa_name(best)),
                      "build with a newer compiler (GCC 12 or newer knows all of them)"});
  if (facts.cuda.driver.state == DriverState::not_built)
    checks.push_back({"build", "CUDA", Finding::note, "not in this build (cmake --preset cuda)"});
  else
    checks.push_back(
        {"build", "CUDA", Finding::good,
         fmt::format("toolkit {} for {}, {}", cuda_version_text(facts.cuda.driver.toolkit), facts.cuda.architectures,
                     facts.nccl.empty() ? "without NCCL" : "NCCL " + facts.nccl)});
}

void add_machine(const DoctorFacts& facts, std::vector<Check>& checks) {
  checks.push_back({"machine", "processor", Finding::good,
                    fmt::format("{}, uses {}", known(facts.environment, "cpu_model"), isa_name(facts.used))});

  const std::string quota =
      facts.cores.quota ? fmt::format("a cgroup quota of {:.2g}", *facts.cores.quota) : std::string("no cgroup quota");
  const std::string cores = fmt::format("{} usable (affinity {}, {})", facts.usable_cores, facts.cores.affinity, quota);
  if (facts.cores.quota && *facts.cores.quota < 1.0)
    checks.push_back({"machine", "cores", Finding::weak, cores + ": less than one core, and times will jump",
                      "give the container one whole core or more"});
  else
    checks.push_back({"machine", "cores", Finding::good, cores});

  const double load = number(facts.environment, "load_average");
  const std::string load_text =
      fmt::format("{:.2f} runnable over the last minute, {}", load, counted(facts.usable_cores, "core"));
  if (load > 0.5 * facts.usable_cores)
    checks.push_back({"machine", "load", Finding::weak, load_text + ": others are at work, and times will scatter",
                      "end what else runs (see `top`), or measure later"});
  else
    checks.push_back({"machine", "load", Finding::good, load_text});

  const double total = number(facts.environment, "memory_total_bytes");
  const double available = number(facts.environment, "memory_available_bytes");
  const double limit = double(facts.memory_limit_bytes);
  const std::string memory =
      fmt::format("{:.1f} GiB may be used{}, {:.1f} GiB are available", limit / kGiB,
                  limit < total ? fmt::format(" (cgroup) of {:.1f} GiB", total / kGiB) : "", available / kGiB);
  if (std::min(limit, available) < kGiB)
    checks.push_back({"machine", "memory", Finding::weak, memory + ": too few for most models",
                      "raise the container's limit, or end what holds the memory"});
  else
    checks.push_back({"machine", "memory", Finding::good, memory});

  const CpuRates& cpu = facts.cpu;
  const std::string threads = counted(cpu.threads, "thread");
  if (cpu.read_bytes_s > 0)
    checks.push_back(
        {"machine", "memory read", Finding::good,
         fmt::format("{:.1f} GB/s over {} MiB with {}", cpu.read_bytes_s * 1e-9, facts.cpu_read_bytes >> 20, threads)});
  else
    checks.push_back({"machine", "memory read", Finding::note, "not measured: needs AVX2"});
  if (cpu.fma_flops_s > 0)
    checks.push_back(
        {"machine", "arithmetic", Finding::good,
         fmt::format(
             "{:.0f} GFLOP/s of float32 FMAs{} with {}", cpu.fma_flops_s * 1e-9,
             cpu.dot_flops_s > 0 ? fmt::format(", {:.0f} of bfloat16 dot products", cpu.dot_flops_s * 1e-9) : "",
             threads)});
  else
    checks.push_back({"machine", "arithmetic", Finding::note, "not measured: needs AVX2"});
}

/// "2: a, b"
std::string readable_names(const std::vector<FoundFile>& files) {
  std::vector<std::string> names;
  for (const FoundFile& file : files)
    if (file.error.empty()) names.push_back(file.name);
  return fmt::format("{}: {}", names.size(), fmt::join(names, ", "));
}

void add_files(const char* what, const std::vector<FoundFile>& files, std::vector<Check>& checks) {
  const bool any = std::any_of(files.begin(), files.end(), [](const FoundFile& file) { return file.error.empty(); });
  if (any)
    checks.push_back({"data", what, Finding::good, readable_names(files)});
  else
    checks.push_back({"data", what, Finding::weak, "none found where configurations look for builtin: names",
                      "run in the repository, or write paths of your own into configurations"});
  for (const FoundFile& file : files)
    if (!file.error.empty())
      checks.push_back({"data", file.name, Finding::weak, file.error, "fetch it again, or take it out of the folder"});
}

void add_results(const DoctorFacts& facts, std::vector<Check>& checks) {
  constexpr double kRoom = 1e9;
  const ResultsPlace& place = facts.results;
  const std::string room = fmt::format("{:.1f} GB free", double(place.free_bytes) * 1e-9);
  if (!place.error.empty())
    checks.push_back({"data", "results", Finding::broken, place.error, "name a folder of yours with --results DIR",
                      ExitCode::store});
  else if (double(place.free_bytes) < kRoom)
    checks.push_back({"data", "results", Finding::weak, fmt::format("{}: {}", place.folder, room),
                      "make room, or name a folder on another disk with --results DIR"});
  else
    checks.push_back({"data", "results", Finding::good, fmt::format("{} can be written, {}", place.folder, room)});
}

const char* mark(Finding finding) {
  switch (finding) {
    case Finding::good: return "✓";
    case Finding::note: return "–";
    case Finding::weak:
    case Finding::broken: return "✗";
  }
  return "?";
}

nlohmann::json rate(double value) { return value > 0 ? nlohmann::json(value) : nlohmann::json(nullptr); }

nlohmann::json gpu_json(const CudaDeviceFacts& device, const GpuRates& rates) {
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

const char* to_string(Finding finding) {
  switch (finding) {
    case Finding::good: return "good";
    case Finding::note: return "note";
    case Finding::weak: return "weak";
    case Finding::broken: return "broken";
  }
  return "?";
}

std::vector<Check> doctor_checks(const DoctorFacts& facts) {
  std::vector<Check> checks;
  add_build(facts, checks);
  add_machine(facts, checks);
  add_files("models", facts.models, checks);
  add_files("datasets", facts.datasets, checks);
  add_results(facts, checks);
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
    out +=
        wrapped_text(fmt::format("  {} {}{}  {}", mark(check.finding), check.name, padding, message_text(check.text)),
                     columns, hang);
    if (check.fix.empty()) continue;
    ++crosses;
    out += wrapped_text(fmt::format("{}fix: {}", std::string(size_t(hang), ' '), message_text(check.fix)), columns,
                        hang + 5);
  }
  return out + (crosses == 0 ? "\nnothing to fix\n" : fmt::format("\n{} to fix\n", counted(crosses, "problem")));
}

nlohmann::json doctor_json(const DoctorFacts& facts, const std::vector<Check>& checks) {
  using nlohmann::json;
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
            {"cuda_architectures", facts.cuda.architectures},
            {"nccl", facts.nccl}}},
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
           {{"release", driver.release},
            {"cuda", driver.supports > 0 ? json(cuda_version_text(driver.supports)) : json(nullptr)}}},
          {"gpus", gpus},
          {"peer_access", peers},
          {"links", links}};
}

}  // namespace paceline
