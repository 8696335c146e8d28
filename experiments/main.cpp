// runexp: the command line, and what becomes of its errors.

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fcntl.h>
#include <filesystem>
#include <memory>
#include <new>
#include <poll.h>
#include <system_error>
#include <unistd.h>

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "engine/util/printable.h"
#include "experiments/commands/commands.h"
#include "experiments/config/file/tree.h"
#include "experiments/run/supervise.h"

namespace {

using namespace paceline;

/// A file opened later must not become what everybody writes to.
void open_closed_streams() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    if (::open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY) != fd) ::_exit(int(ExitCode::usage));
  }
}

/// A reader that went away is no fault; a full disk is, wherever in the output it struck.
void check_output_was_written() {
  errno = 0;
  if (std::fflush(stdout) == 0 && !std::ferror(stdout)) return;
  const int reason = errno;
  pollfd output{.fd = STDOUT_FILENO, .events = POLLOUT, .revents = 0};
  if (reason == EPIPE || (::poll(&output, 1, 0) > 0 && (output.revents & POLLERR) != 0)) return;
  fail(ExitCode::store, "standard output: {}",
       reason != 0 ? std::generic_category().message(reason) : "not all of it could be written");
}

/// Says why on standard error: not by fmt::print, which throws where nobody reads.
int complain(const std::string& line, ExitCode code) {
  std::fputs((line + "\n").c_str(), stderr);
  return int(code);
}

int complain_of(const std::string& why, ExitCode code) { return complain("runexp: error: " + message_text(why), code); }

}  // namespace

int main(int argc, char** argv) {
  open_closed_streams();
  try {
    install_fault_handler();
    spdlog::set_default_logger(
        std::make_shared<spdlog::logger>("runexp", std::make_shared<spdlog::sinks::stderr_sink_mt>()));
    spdlog::set_pattern("%H:%M:%S %l %v");
    const ExitCode code = dispatch(std::vector<std::string>(argv, argv + argc));
    check_output_was_written();
    return int(code);
  } catch (const ConfigError& error) {  // its lines carry their own file, line and "error:"
    return complain(error.what(), error.code());
  } catch (const Error& error) {
    complain_of(error.what(), error.code());
    if (error.code() == ExitCode::comm) {  // a rank that is lost would meet the end of static objects
      std::fflush(nullptr);
      std::_Exit(int(error.code()));
    }
    return int(error.code());
  } catch (const std::system_error& error) {
    constexpr int kClosedPipe = 128 + SIGPIPE;  // as the shell shows it where the signal ends a program
    if (error.code().value() == EPIPE) return kClosedPipe;
    if (std::ferror(stdout))
      return complain(fmt::format("runexp: error: standard output: {}", error.code().message()), ExitCode::store);
    // A folder that cannot be read or is gone, the current one for example, is the user's.
    const bool of_input = dynamic_cast<const std::filesystem::filesystem_error*>(&error) != nullptr;
    return complain_of(error.what(), of_input ? ExitCode::usage : ExitCode::device);
  } catch (const std::bad_alloc& error) {
    return complain_of(failure_text(error), ExitCode::device);
  } catch (const std::exception& error) {  // nothing here throws others on purpose
    return complain_of(failure_text(error), ExitCode::internal);
  }
}
