// SIGINT, SIGTERM and SIGHUP ask for an orderly stop; a second one asks for it now.

#include <csignal>

#include "experiments/commands/commands.h"

namespace paceline {
namespace {

// A signal handler can reach nothing but static objects of this kind.
volatile std::sig_atomic_t g_num_interrupts = 0;

volatile std::sig_atomic_t g_last_signal = SIGINT;

volatile std::sig_atomic_t g_num_pauses = 0;

extern "C" void on_continue(int) { g_num_pauses = g_num_pauses + 1; }

extern "C" void on_interrupt(int signal) {
  g_last_signal = signal;
  g_num_interrupts = g_num_interrupts + 1;
}

}  // namespace

int num_interrupts() { return int(g_num_interrupts); }

int num_pauses() { return int(g_num_pauses); }

ExitCode interrupt_exit_code() { return g_last_signal == SIGINT ? ExitCode::interrupted : ExitCode::terminated; }

void install_interrupt_handler() {
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  struct sigaction go_on {};
  go_on.sa_handler = on_continue;
  go_on.sa_flags = SA_RESTART;
  sigemptyset(&go_on.sa_mask);
  sigaction(SIGCONT, &go_on, nullptr);
  struct sigaction hangup {};
  sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);  // ignored under nohup
  std::signal(SIGPIPE, SIG_IGN);                                          // a closed pipe shows as a failed write
}

}  // namespace paceline
