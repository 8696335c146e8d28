#include "experiments/analysis/read_run.h"

#include "experiments/analysis/outputs/certificate.h"
#include "experiments/results/files/read.h"

namespace paceline {

RunResult read_run(const std::filesystem::path& folder) {
  RunResult run = read_record(folder).run;
  const nlohmann::json& settings = run.config_resolved;
  const nlohmann::json measure =
      settings.is_object() ? settings.value("measure", nlohmann::json::object()) : nlohmann::json();
  if (measure.is_object() && measure.value("verify_lossless", true)) certify(run);
  return run;
}

}  // namespace paceline
