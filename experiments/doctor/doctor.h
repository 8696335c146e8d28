#pragma once
// `runexp doctor`: what a run will find on this machine. Facts are gathered first (slow, with side effects on nothing
// but the page cache), then judged by functions of the facts alone.

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "experiments/run/measure/measure_devices.h"
#include "kernels/cpu/cores.h"
#include "kernels/cuda/probe.h"
#include "kernels/error.h"

namespace paceline {

/// A checkpoint or data set that a configuration can name. error: why it cannot be read; empty: it can.
struct FoundFile {
  std::string name;
  std::string error;
};

/// The nearest folder that is there on the way to the results folder.
struct ResultsPlace {
  std::string folder;  // as given
  std::string error;   // why a file cannot be made there; empty: it can
  uint64_t free_bytes = 0;
};

/// What one GPU reached. error: why something was not measured.
struct GpuRates {
  CudaMemoryRates memory;
  double matrix_flops_s = 0;       // in strict numerics
  double fast_matrix_flops_s = 0;  // in fast numerics
  int32_t matrix_size = 0;         // of [size, size] matrices
  std::string error;
  std::string fast_error;  // why fast numerics do not run here: what is missing, and the fix
};
struct GpuLink {
  int from = 0, to = 0;
  CudaLinkRate rate;
  std::string error;
};

struct DoctorFacts {
  nlohmann::json environment;          // collect_environment()
  std::vector<Isa> built, of_machine;  // instruction sets
  Isa used = Isa::scalar;              // by a CPU device
  CoreLimits cores;
  int usable_cores = 1;
  size_t memory_limit_bytes = 0;
  std::vector<FoundFile> models, datasets;
  ResultsPlace results;
  CpuRates cpu;
  size_t cpu_read_bytes = 0;  // the region that was read
  CudaFacts cuda;
  std::string nccl;            // version; empty: none
  std::vector<GpuRates> gpus;  // one for each of cuda.devices
  std::vector<GpuLink> links;  // both ways of pairs, as far as time allowed
};

/// Folders below `folder` that hold a config.json, and .gguf files (of a split one the first part), by name; none where
/// it cannot be read.
std::vector<std::filesystem::path> checkpoints_below(const std::filesystem::path& folder);

/// Measures for about two seconds, and less than ten on machines with many GPUs: what has not been measured by then
/// says so. Never throws for what it finds.
DoctorFacts collect_doctor_facts(const std::filesystem::path& results_root);

enum class Finding : uint8_t {
  good,
  note,    // nothing to fix: what is absent by choice
  weak,    // runs, but slower or less comparable than it could
  broken,  // a run that needs it ends with `code`
};
const char* to_string(Finding finding);

/// One line of the doctor. fix: what fixes it, a line; empty exactly for good and note.
struct Check {
  std::string section, name;
  Finding finding = Finding::good;
  std::string text;
  std::string fix = {};
  ExitCode code = ExitCode::ok;  // ok exactly unless broken
};

/// In the order in which they are shown. Functions of the facts alone.
std::vector<Check> doctor_checks(const DoctorFacts& facts);
std::vector<Check> gpu_checks(const DoctorFacts& facts);

/// That of the first broken check; else ok.
ExitCode doctor_exit_code(const std::vector<Check>& checks);

/// Sections with a line for each check, and a line below each cross that begins with "fix:"; broken between words at
/// `columns` (0: not).
std::string doctor_text(const std::vector<Check>& checks, int columns);
/// Schema: results/README.md.
nlohmann::json doctor_json(const DoctorFacts& facts, const std::vector<Check>& checks);

}  // namespace paceline
