#include "experiments/config/keys/key_effect.h"

#include "engine/util/json_io.h"

namespace paceline {

using nlohmann::json;

std::map<std::string, json> settings_that_change(KeyEffect least, const json& resolved) {
  std::map<std::string, json> settings;
  for (const KeySpec& key : config_keys()) {
    if (!key.in_identity || key.effect < least) continue;
    const json* const value = find_value(resolved, key.path);
    if (!value) continue;
    json& kept = settings[key.path] = *value;
    const bool is_file = key.type == KeyType::path || key.type == KeyType::shape;
    if (is_file && kept.is_string()) {
      const std::string& name = kept.get_ref<const std::string&>();
      kept = name.substr(name.find_last_of('/') + 1);
    }
  }
  return settings;
}

}  // namespace paceline
