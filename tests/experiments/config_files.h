#pragma once
// A folder of configuration files that lives as long as the test.

#include <filesystem>
#include <string>

#include "experiments/config/file/load.h"
#include "tests/support/checkpoint_writer.h"

namespace paceline {

class ConfigFiles {
 public:
  std::filesystem::path write(const std::string& name, const std::string& text) const {
    const std::filesystem::path file = folder_ / name;
    std::filesystem::create_directories(file.parent_path());
    test::write_file(file, text);
    return file;
  }
  LoadedConfig load(const std::string& text, const ConfigOverrides& overrides = {}) const {
    return load_config(write("x.json", text), overrides);
  }
  const std::filesystem::path& folder() const { return folder_.path(); }

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
      for (size_t at; (at = all.find(folder().string() + "/")) != std::string::npos;)
        all.erase(at, folder().string().size() + 1);
      return all;
    }
    return "";
  }

 private:
  test::TempDir folder_;
};

}  // namespace paceline
