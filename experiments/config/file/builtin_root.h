#pragma once
// Where what ships with the program lies: the folder behind builtin: names.

#include <filesystem>
#include <string>

namespace paceline {

/// The configs/ folder (the one with models/ in it) nearest above `file`, else ./configs, else the one nearest above
/// the program, else, where `cmake --install` put that as bin/runexp, share/paceline/configs beside bin/; empty when
/// there is none.
std::filesystem::path find_builtin_root(const std::filesystem::path& file);

/// Throws Error(usage): `name` begins with builtin: and find_builtin_root() found nothing.
[[noreturn]] void fail_without_builtin_root(const std::string& name);

}  // namespace paceline
