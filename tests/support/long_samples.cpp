#include "tests/support/long_samples.h"

#include <ctime>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/support/paths.h"

namespace paceline::test {

void record_long_sample(const std::string& name, const nlohmann::ordered_json& facts) {
  if (!long_samples()) return;
  const std::time_t now = std::time(nullptr);
  char day[sizeof "2026-01-01"];
  std::strftime(day, sizeof day, "%F", std::gmtime(&now));
  nlohmann::ordered_json record = {{"day", day}, {"cores", std::thread::hardware_concurrency()}};
  record.update(facts);
  const std::filesystem::path folder = source_dir() / "results" / "long";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / (name + ".json")) << record.dump(2) << "\n";
}

}  // namespace paceline::test
