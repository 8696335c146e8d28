#include "experiments/analysis/find_baseline.h"

#include <system_error>

#include "experiments/analysis/read_run.h"
#include "experiments/results/baseline.h"
#include "experiments/results/read.h"

namespace paceline {

FoundBaseline find_baseline(const std::filesystem::path& results_root, const std::string& name) {
  std::error_code ignored;
  if (name.ends_with(".json") || std::filesystem::is_regular_file(name, ignored))
    return {.name = name, .facts = read_baseline(name)};
  const RunResult run = read_run(find_run(results_root, name));
  return {.name = run.info.id, .facts = make_baseline(run)};
}

}  // namespace paceline
