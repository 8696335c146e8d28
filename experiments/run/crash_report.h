#pragma once
// What a process that dies of a signal says last, to the process that watches it.

#include <string>

namespace paceline {

/// From here on a fatal signal of this process (SIGSEGV, SIGABRT, SIGFPE, SIGILL, SIGBUS unless another handler took
/// it) and an exception that nobody catches write a report to `fd`: `head`, the signal, the exception's text, the
/// calling functions as addresses for addr2line, and a zero byte. Then the process dies of it as ever. Signals for
/// which a sanitizer has its own handler are left alone. Call it once, before the process has threads; `fd` stays open.
void report_crashes_to(int fd, char head);

}  // namespace paceline
