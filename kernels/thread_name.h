#pragma once
// Names of threads.

#include <pthread.h>
#include <string>

namespace paceline {

/// Names the calling thread for debuggers, profilers and `top -H`: 15 bytes at most, what is beyond is cut. Threads
/// that it starts have that name, too, until they name themselves.
inline void name_this_thread(const std::string& name) {
  pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
}

}  // namespace paceline
