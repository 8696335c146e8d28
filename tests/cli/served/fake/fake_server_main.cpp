// fake_server --port N [--fault K] [--shift N] [--drafts none|metrics] [--dies] [--unhealthy] [--no-reset]: the server
// of tests/support/fake_server.h as a program. It writes its process id to the file that FAKE_SERVER_PID_FILE names.

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <unistd.h>

#include "tests/support/fake_server.h"

int main(int argc, char** argv) {
  using namespace paceline::test;
  FakeServerOptions options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto number = [&] { return i + 1 < argc ? std::atoi(argv[++i]) : 0; };
    if (word == "--port") options.port = number();
    if (word == "--fault") options.fault = PlantedFault(number());
    if (word == "--shift") options.token_shift = number();
    if (word == "--unhealthy") options.is_healthy = false;
    if (word == "--no-reset") options.honours_reset = false;
    if (word == "--drafts" && i + 1 < argc)
      options.drafts = std::strcmp(argv[++i], "metrics") == 0 ? StatedDrafts::metrics : StatedDrafts::none;
    if (word == "--dies") {
      std::fputs("loading the model\nno such model: fake-model\n", stderr);
      return 3;
    }
  }
  sigset_t ends;
  sigemptyset(&ends);
  for (const int signal : {SIGTERM, SIGINT}) sigaddset(&ends, signal);
  sigprocmask(SIG_BLOCK, &ends, nullptr);
  if (const char* const file = std::getenv("FAKE_SERVER_PID_FILE"))
    std::ofstream(file, std::ios::app) << ::getpid() << "\n";
  const FakeServer server(options);
  std::printf("listening\n%s\n", server.url().c_str());
  std::fflush(stdout);
  int signal = 0;
  sigwait(&ends, &signal);
  return 0;
}
