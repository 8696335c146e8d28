// runexp doctor

#include <cstdio>

#include "experiments/commands.h"
#include "experiments/doctor.h"
#include "experiments/results_store.h"

namespace paceline {

ExitCode doctor_command(const std::filesystem::path& results_root, DoctorOutput output) {
  const DoctorFacts facts = collect_doctor_facts(results_root);
  const std::vector<Check> checks = doctor_checks(facts);
  fmt::print("{}", output == DoctorOutput::json ? dump_json(doctor_json(facts, checks)) : doctor_text(checks));
  return doctor_exit_code(checks);
}

}  // namespace paceline
