// runexp doctor

#include "experiments/doctor/doctor.h"

#include <cstdio>

#include "experiments/commands/command_line.h"
#include "experiments/results/files/store.h"
#include "experiments/ui/output_columns.h"

namespace paceline {
namespace {

enum class DoctorOutput : uint8_t { text, json };

/// What a run will find on this machine, in seconds (doctor.h). The exit code of the first thing that is
/// broken; ok when there is none, and without GPUs.
ExitCode doctor_command(const std::filesystem::path& results_root, DoctorOutput output) {
  const DoctorFacts facts = collect_doctor_facts(results_root);
  const std::vector<Check> checks = doctor_checks(facts);
  fmt::print("{}", output == DoctorOutput::json ? dump_json(doctor_json(facts, checks))
                                                : doctor_text(checks, output_columns()));
  return doctor_exit_code(checks);
}

}  // namespace

void add_doctor_command(const Command& program) {
  struct Doctor {
    std::filesystem::path results = "results";
    bool json = false;
  };
  const auto doctor = std::make_shared<Doctor>();
  program.below("doctor", "look at build, machine, models, results folder and GPUs, measure them, and say what to fix")
      .flag("--json", doctor->json, "print JSON (results/README.md)")
      .option("--results", doctor->results, "folder for results", {.shown = true})
      .calls(
          [doctor] { return doctor_command(doctor->results, doctor->json ? DoctorOutput::json : DoctorOutput::text); });
}

}  // namespace paceline
