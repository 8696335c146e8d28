#pragma once
// What an exception that ends a cell means to the sweep and to the reader.

#include <exception>
#include <string>

#include "kernels/error.h"

namespace paceline {

/// Of an Error its own, device where memory was refused, internal for any other exception: nothing throws others on
/// purpose.
ExitCode failure_code(const std::exception& error);

/// One line for the record. An exception that is no Error says so: it was not foreseen.
std::string failure_text(const std::exception& error);

/// Whether the whole run ends by it, and not the cell alone: the results store refused, or the reader of the output has
/// gone (EPIPE).
bool ends_the_run(const std::exception& error);

}  // namespace paceline
