#pragma once
// A folder of configuration files that lives as long as the test.

#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>

#include "experiments/config_load.h"

namespace paceline {

class ConfigFiles {
 public:
  ConfigFiles() {
    std::string pattern = (std::filesystem::temp_directory_path() / "paceline_config_XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~ConfigFiles() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  ConfigFiles(const ConfigFiles&) = delete;
  ConfigFiles& operator=(const ConfigFiles&) = delete;

  std::filesystem::path write(const std::string& name, const std::string& text) const {
    const std::filesystem::path file = folder_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
    return file;
  }
  LoadedConfig load(const std::string& text, const ConfigOverrides& overrides = {}) const {
    return load_config(write("x.json", text), overrides);
  }
  const std::filesystem::path& folder() const { return folder_; }

  /// "line:col: message" of every complaint about `text`, one a line; "" when it loads. The folder's name is cut out.
  std::string complaints(const std::string& text, const ConfigOverrides& overrides = {},
                         const std::string& name = "x.json") const {
    try {
      load_config(write(name, text), overrides);
    } catch (const ConfigError& error) {
      std::string all;
      for (const Diagnostic& d : error.diagnostics()) {
        if (!all.empty()) all += "\n";
        if (!d.origin.source->is_argument) all += fmt::format("{}:{}: ", d.origin.line, d.origin.column);
        all += d.origin.source->is_argument ? d.headline() : d.message;
      }
      for (size_t at; (at = all.find(folder_.string() + "/")) != std::string::npos;)
        all.erase(at, folder_.string().size() + 1);
      return all;
    }
    return "";
  }

 private:
  std::filesystem::path folder_;
};

}  // namespace paceline
