#pragma once
// Completion scripts for shells, made from the program's own commands, options and configuration keys.

#include <string>
#include <string_view>

#include <CLI/CLI.hpp>

namespace paceline {

enum class Shell : uint8_t { bash, zsh, fish };

/// A script that completes commands, options, keys after --set and --axis with their words after '=', names that a
/// command takes, and files elsewhere. `app` holds all commands already.
std::string completion_script(const CLI::App& app, Shell shell);

}  // namespace paceline
