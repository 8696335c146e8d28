#pragma once
// Where and with what a run was measured: enough to judge a number and to tell two machines apart.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace paceline {

/// Facts about machine, limits and build. Keys (results/README.md): cpu_model, isa[], cores_online, cores_available,
/// cgroup_cpus, memory_total_bytes, memory_available_bytes, cgroup_memory_bytes, kernel, os, hostname_hash, compiler,
/// compiler_flags, build_type, git_commit and git_dirty (of the sources that the program was built from), binary_hash,
/// load_average, started_at, machine_id, gpus[] (of this process, in its order), gpu_driver, cuda_visible_devices. What
/// cannot be read is null; never throws for a missing /proc or /sys file.
nlohmann::json collect_environment();

/// The machine_id of that, in milliseconds: two runs with the same one may be compared in time, others only in counts.
std::string this_machine_id();

/// The bytes of the linker's build ID (NT_GNU_BUILD_ID of gABI notes, each part padded to `align` bytes, 4 or 8) within
/// an ELF note segment; nullopt where there is none or a note is cut short. They stay `notes`' own.
std::optional<std::string_view> build_id_in(std::string_view notes, size_t align);

/// 16 hexadecimal digits that tell this linked program from any other: FNV-1a of its build ID, which is a hash of all
/// that was linked; of the program's file where the linker gave none; empty where that cannot be read. A stripped or
/// copied program is the same one. Takes microseconds with a build ID. Any thread.
std::string program_hash();

}  // namespace paceline
