#pragma once
// Which program this is: what a run records and a resume compares.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace paceline {

/// The bytes of the linker's build ID (NT_GNU_BUILD_ID of gABI notes, each part padded to `align` bytes, 4 or 8) within
/// an ELF note segment; nullopt where there is none or a note is cut short. They stay `notes`' own.
std::optional<std::string_view> build_id_in(std::string_view notes, size_t align);

/// 16 hexadecimal digits that tell this linked program from any other: FNV-1a of its build ID, which is a hash of all
/// that was linked; of the program's file where the linker gave none; empty where that cannot be read. A stripped or
/// copied program is the same one. Takes microseconds with a build ID. Any thread.
std::string program_hash();

}  // namespace paceline
