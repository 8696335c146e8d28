#include "experiments/run/cell_failure.h"

#include <new>
#include <system_error>

namespace paceline {

ExitCode failure_code(const std::exception& error) {
  if (const auto* const known = dynamic_cast<const Error*>(&error)) return known->code();
  return dynamic_cast<const std::bad_alloc*>(&error) ? ExitCode::device : ExitCode::internal;
}

std::string failure_text(const std::exception& error) {
  if (dynamic_cast<const Error*>(&error)) return error.what();
  if (dynamic_cast<const std::bad_alloc*>(&error))
    return "out of memory; lower engine.kv_cache.memory_fraction or use a smaller model";
  return fmt::format("an error that was not foreseen: {}", error.what());
}

bool ends_the_run(const std::exception& error) {
  if (const auto* const known = dynamic_cast<const Error*>(&error)) return known->code() == ExitCode::store;
  const auto* const system = dynamic_cast<const std::system_error*>(&error);
  return system && system->code() == std::errc::broken_pipe;
}

}  // namespace paceline
