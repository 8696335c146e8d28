#pragma once
// The error a call throws, for tests of messages.

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/error.h"

namespace paceline::test {

/// Fails the test unless `call` throws an Error with `code` whose message is one line and holds every piece of text.
template <class Call>
void expect_error(ExitCode code, const std::vector<std::string>& pieces, const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(int(error.code()), int(code)) << message;
    EXPECT_EQ(message.find('\n'), message.npos) << message;
    EXPECT_LT(message.size(), 4000u) << message.substr(0, 200);
    for (const std::string& piece : pieces)
      EXPECT_NE(message.find(piece), message.npos) << piece << " not in: " << message;
    return;
  }
  ADD_FAILURE() << "no error; expected one with " << (pieces.empty() ? "" : pieces[0]);
}

}  // namespace paceline::test
