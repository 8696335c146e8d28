// runexp doctor, models: what this machine has, and which checkpoints are at hand

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "engine/model/families.h"
#include "engine/model/gguf_family.h"
#include "engine/model/model_spec.h"
#include "engine/util/printable.h"
#include "experiments/commands/command_line.h"
#include "experiments/config/file/builtin_root.h"
#include "experiments/doctor/doctor.h"
#include "experiments/report/text/table.h"
#include "experiments/results/files/store.h"
#include "experiments/ui/output_columns.h"
#include "speculative/eagle3_spec.h"

namespace paceline {
namespace {

/// The exit code of the first thing that is broken; ok when there is none, and without GPUs.
ExitCode doctor_command(const std::filesystem::path& results_root, bool as_json) {
  const DoctorFacts facts = collect_doctor_facts(results_root);
  const std::vector<Check> checks = doctor_checks(facts);
  fmt::print("{}", as_json ? dump_json(doctor_json(facts, checks)) : doctor_text(checks, output_columns()));
  return doctor_exit_code(checks);
}

/// A checkpoint at hand.
struct FoundModel {
  std::string name, about;
};

void find_models_below(const std::filesystem::path& folder, const std::string& prefix, std::vector<FoundModel>& found) {
  for (const std::filesystem::path& dir : checkpoints_below(folder)) {
    FoundModel model{.name = user_text(prefix + dir.filename().string()),
                     .about = "eagle3   an EAGLE-3 head: speculation.eagle3.path"};
    try {
      if (!is_eagle3_folder(dir)) {
        const ModelSpec spec = load_model_spec(dir);
        model.about = fmt::format(
            "{:<8} {:>8.1f} M parameters  {} layers x {}  heads {}/{} x {}  vocab {}  positions {}  {}", spec.family,
            double(spec.num_parameters()) / 1e6, spec.num_layers, spec.hidden_size, spec.num_heads, spec.num_kv_heads,
            spec.head_dim, spec.vocab_size, spec.max_position, dtype_name(spec.checkpoint_dtype));
      }
    } catch (const Error& problem) {
      model.about = "✗ " + message_text(problem.what());
    }
    found.push_back(std::move(model));
  }
}

/// Checkpoints below configs/models and PACELINE_MODELS, with their sizes.
ExitCode list_models() {
  const std::filesystem::path builtin = find_builtin_root("config.json");
  std::vector<FoundModel> found;
  if (!builtin.empty())
    find_models_below(builtin / "models", "builtin:", found);
  else
    fmt::print(stderr,
               "found no folder configs/models in or above the current folder or the program: run it in the repository "
               "to see the built-in models\n");
  if (const char* folder = std::getenv("PACELINE_MODELS"))
    find_models_below(folder, std::string(folder) + "/", found);
  else
    fmt::print(stderr, "PACELINE_MODELS is not set: name a folder of checkpoints there to see them here\n");
  size_t width = 24;
  for (const FoundModel& model : found) width = std::max(width, model.name.size());
  for (const FoundModel& model : found) fmt::print("{:<{}} {}\n", model.name, width, model.about);
  return ExitCode::ok;
}

/// What each architecture loads from and runs on, from the list of families. All run through one forward pass: what the
/// device and the ranks can do they can do for each.
ExitCode print_support() {
  constexpr const char* kYes = "yes";
  Table table;
  for (const char* const head : {"architecture", "safetensors", "GGUF", "CPU", "CUDA", "TP", "PP", "target", "draft"})
    table.columns.push_back({.name = head, .is_text = true});
  for (const Family& family : families())
    table.rows.push_back({.cells = {std::string(family.architecture), kYes,
                                    family.gguf ? std::string(family.gguf->architecture) : std::string("-"), kYes, kYes,
                                    kYes, kYes, kYes, kYes}});
  for (const auto& lines : stacked_table(table, output_columns()).lines)
    for (const std::string& line : lines) fmt::print("{}\n", line);
  fmt::print(stderr,
             "GGUF: general.architecture of such files. CUDA: this build {} it. TP: where it divides the heads, which "
             "`runexp plan` says of a model\n",
             probe_cuda(ProbeDepth::listed).architectures.empty() ? "lacks" : "has");
  return ExitCode::ok;
}

}  // namespace

void add_machine_commands(const Command& program) {
  struct Doctor {
    std::filesystem::path results = "results";
    bool json = false;
  };
  const auto doctor = std::make_shared<Doctor>();
  add_results_option(program.below("doctor", "measure this machine and say what to fix"), doctor->results)
      .option("--json", &doctor->json, "print JSON; format in results/README.md")
      .calls([doctor] { return doctor_command(doctor->results, doctor->json); });

  const auto support = std::make_shared<bool>(false);
  program.below("models", "list the checkpoints found, or what formats are supported")
      .option("--support", support.get(), "list supported architectures, file formats and devices")
      .calls([support] { return *support ? print_support() : list_models(); });
}

}  // namespace paceline
