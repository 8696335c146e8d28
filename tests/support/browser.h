#pragma once
// A page in a headless Chromium, driven as a user would: over the browser's debugging pipe.

#include <filesystem>
#include <string>
#include <sys/types.h>

#include <nlohmann/json.hpp>

#include "tests/support/checkpoint_writer.h"

namespace paceline::test {

/// The browser of this machine; empty: there is none in PATH.
std::filesystem::path chromium();

/// One browser with one page. Single-threaded. All throw std::runtime_error where the browser does not answer in time.
class BrowserPage {
 public:
  /// REQUIRES: chromium() is there.
  BrowserPage();
  ~BrowserPage();
  BrowserPage(const BrowserPage&) = delete;
  BrowserPage& operator=(const BrowserPage&) = delete;

  /// Runs in each page that is opened from here on, before its own scripts.
  void run_first(const std::string& script);
  /// Returns once it is loaded.
  void open(const std::string& url);
  void show_in(int width, int height, bool dark);
  /// An expression's value, of a promise what it becomes; an exception is thrown here, too.
  nlohmann::json value_of(const std::string& expression);
  /// Whether the expression is true before the time is over.
  bool comes_true(const std::string& expression, double seconds);
  /// Into what has the focus.
  void type(const std::string& text);
  void press_enter();

 private:
  nlohmann::json call(const std::string& method, nlohmann::json params = nlohmann::json::object());
  std::string read_message();
  void end();

  TempDir profile_;
  pid_t pid_ = -1;
  int socket_ = -1;
  std::string input_, session_;
  int num_calls_ = 0;
};

}  // namespace paceline::test
