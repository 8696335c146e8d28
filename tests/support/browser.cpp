#include "tests/support/browser.h"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <poll.h>
#include <sstream>
#include <stdexcept>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "tests/support/run_process.h"

namespace paceline::test {
namespace {

using Json = nlohmann::json;

constexpr int kBrowserReads = 3, kBrowserWrites = 4;  // descriptors that --remote-debugging-pipe asks for
constexpr double kAnswerSeconds = 60;

}  // namespace

std::filesystem::path chromium() {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');)
    for (const char* name : {"chromium", "chromium-browser", "google-chrome"})
      if (std::filesystem::exists(std::filesystem::path(folder) / name)) return std::filesystem::path(folder) / name;
  return {};
}

BrowserPage::BrowserPage() {
  std::vector<std::string> words = {chromium().string(),
                                    "--headless",
                                    "--no-sandbox",
                                    "--disable-gpu",
                                    "--remote-debugging-pipe",
                                    "--user-data-dir=" + profile_.path().string()};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  int ends[2];  // a socket serves as both pipes, and its writer gets no SIGPIPE
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) throw std::runtime_error("socketpair");
  socket_ = ends[0];
  pid_ = ::fork();
  if (pid_ == 0) {
    ::setpgid(0, 0);                                                    // its own children end with it
    const int its_end = ::fcntl(ends[1], F_DUPFD, kBrowserWrites + 1);  // a copy onto itself would stay close-on-exec
    for (const int fd : {kBrowserReads, kBrowserWrites}) ::dup2(its_end, fd);
    const int nowhere = ::open("/dev/null", O_RDWR);
    for (const int stream : {0, 1, 2}) ::dup2(nowhere, stream);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  ::setpgid(pid_, pid_);
  ::close(ends[1]);
  try {
    const Json target = call("Target.createTarget", {{"url", "about:blank"}})["targetId"];
    session_ = call("Target.attachToTarget", {{"targetId", target}, {"flatten", true}})["sessionId"];
    call("Page.enable");
  } catch (...) {
    end();
    throw;
  }
}

BrowserPage::~BrowserPage() { end(); }

void BrowserPage::end() {
  ::kill(-pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  ::close(socket_);
}

std::string BrowserPage::read_message() {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(kAnswerSeconds * time_factor());
  while (true) {
    if (const size_t length = input_.find('\0'); length != std::string::npos) {
      const std::string message = input_.substr(0, length);
      input_.erase(0, length + 1);
      return message;
    }
    pollfd waits{.fd = socket_, .events = POLLIN, .revents = 0};
    char bytes[65536];
    if (::poll(&waits, 1, 100) > 0) {
      const ssize_t count = ::recv(socket_, bytes, sizeof bytes, 0);
      if (count <= 0) throw std::runtime_error("the browser has ended");
      input_.append(bytes, size_t(count));
    }
    if (std::chrono::steady_clock::now() > end) throw std::runtime_error("no answer from the browser");
  }
}

Json BrowserPage::call(const std::string& method, Json params) {
  const int id = ++num_calls_;
  Json message = {{"id", id}, {"method", method}, {"params", std::move(params)}};
  if (!session_.empty()) message["sessionId"] = session_;
  const std::string bytes = message.dump() + '\0';
  for (size_t sent = 0; sent < bytes.size();) {
    const ssize_t count = ::send(socket_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (count <= 0) throw std::runtime_error("the browser takes no calls");
    sent += size_t(count);
  }
  while (true) {
    Json answer = Json::parse(read_message());
    if (answer.value("id", 0) != id) continue;  // an event
    if (answer.contains("error")) throw std::runtime_error(method + ": " + answer["error"].dump());
    return answer["result"];
  }
}

void BrowserPage::run_first(const std::string& script) {
  call("Page.addScriptToEvaluateOnNewDocument", {{"source", script}});
}

void BrowserPage::open(const std::string& url) {
  const Json answer = call("Page.navigate", {{"url", url}});
  if (answer.contains("errorText")) throw std::runtime_error(url + ": " + answer["errorText"].get<std::string>());
  if (!comes_true("location.href !== 'about:blank' && document.readyState === 'complete'", kAnswerSeconds))
    throw std::runtime_error(url + " does not load");
}

void BrowserPage::show_in(int width, int height, bool dark) {
  call("Emulation.setDeviceMetricsOverride",
       {{"width", width}, {"height", height}, {"deviceScaleFactor", 1}, {"mobile", false}});
  const Json scheme = {{"name", "prefers-color-scheme"}, {"value", dark ? "dark" : "light"}};
  call("Emulation.setEmulatedMedia", {{"features", Json::array({scheme})}});
}

Json BrowserPage::value_of(const std::string& expression) {
  const Json answer =
      call("Runtime.evaluate", {{"expression", expression}, {"awaitPromise", true}, {"returnByValue", true}});
  if (answer.contains("exceptionDetails"))
    throw std::runtime_error(expression + ": " + answer["exceptionDetails"].dump());
  return answer["result"].value("value", Json());
}

bool BrowserPage::comes_true(const std::string& expression, double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds * time_factor());
  while (value_of(expression) != true) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

void BrowserPage::type(const std::string& text) { call("Input.insertText", {{"text", text}}); }

void BrowserPage::press_enter() {
  for (const char* type : {"keyDown", "keyUp"}) {
    Json key = {{"type", type}, {"key", "Enter"}, {"code", "Enter"}, {"windowsVirtualKeyCode", 13}};
    if (std::string(type) == "keyDown") key["text"] = "\r";
    call("Input.dispatchKeyEvent", key);
  }
}

}  // namespace paceline::test
