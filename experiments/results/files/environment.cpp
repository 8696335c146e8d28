#include "experiments/results/files/environment.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstdlib>
#include <cstring>
#include <elf.h>
#include <fstream>
#include <link.h>
#include <optional>
#include <sstream>
#include <sys/utsname.h>
#include <unistd.h>

#include <fmt/format.h>

#include "engine/util/clock.h"
#include "experiments/results/build_info.h"
#include "kernels/cpu/cores.h"
#include "kernels/cuda/probe.h"
#include "kernels/fnv1a.h"

namespace paceline {

using nlohmann::json;

namespace {

/// Flags that decide which kernels run.
constexpr std::array kIsaFlags = {"sse4_2",   "avx",      "avx2",     "fma",         "f16c",
                                  "avx512f",  "avx512bw", "avx512vl", "avx512_vnni", "avx512_bf16",
                                  "amx_bf16", "amx_int8", "asimd",    "sve"};

std::optional<std::string> read_text(const char* path) {
  std::ifstream in(path);
  if (!in) return std::nullopt;
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

/// Value behind "key : value" or "key=value" in a text of lines.
std::optional<std::string> field_of(const std::string& text, std::string_view key, char separator) {
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    const size_t at = line.find(separator);
    if (at == std::string::npos) continue;
    std::string name = line.substr(0, at);
    name.erase(name.find_last_not_of(" \t") + 1);
    if (name != key) continue;
    const size_t begin = line.find_first_not_of(" \t\"", at + 1);
    if (begin == std::string::npos) return "";
    return line.substr(begin, line.find_last_not_of(" \t\"") + 1 - begin);
  }
  return std::nullopt;
}

json or_null(const std::optional<std::string>& text) { return text ? json(*text) : json(nullptr); }

json meminfo_bytes(const std::string& meminfo, std::string_view key) {
  const int64_t kib = std::atoll(field_of(meminfo, key, ':').value_or("").c_str());
  return kib > 0 ? json(kib * 1024) : json(nullptr);
}

json cgroup_memory_bytes() {
  constexpr double kNoLimit = 1e18;  // v1 writes a huge number for "none"
  for (const char* path : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    const auto text = read_text(path);
    if (!text || text->starts_with("max")) continue;
    const double bytes = std::atof(text->c_str());
    if (bytes > 0 && bytes < kNoLimit) return static_cast<int64_t>(bytes);
  }
  return nullptr;
}

json isa_of(const std::string& cpuinfo) {
  auto flags = field_of(cpuinfo, "flags", ':');
  if (!flags) flags = field_of(cpuinfo, "Features", ':');
  json out = json::array();
  std::istringstream in(flags.value_or(""));
  for (std::string flag; in >> flag;) {
    if (std::find(kIsaFlags.begin(), kIsaFlags.end(), flag) != kIsaFlags.end()) out.push_back(flag);
  }
  return out;
}

/// "cuda:0 NVIDIA H200 0000:1b:00.0"
json gpus_of(const CudaFacts& cuda) {
  json out = json::array();
  for (const CudaDeviceFacts& device : cuda.devices)
    out.push_back(fmt::format("cuda:{} {} {}", device.index, device.name, device.pci));
  return out;
}

/// "580.65.06, CUDA 13.0"; null without a driver that works.
json gpu_driver(const DriverStatus& driver) {
  if (driver.state != DriverState::works) return nullptr;
  return fmt::format("{}{}CUDA {}", driver.release, driver.release.empty() ? "" : ", ",
                     cuda_version_text(driver.supports));
}

/// Of the program itself, which is the first object that the loader names.
int take_build_id(dl_phdr_info* object, size_t, void* found) {
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const auto& segment = object->dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    const auto* begin = reinterpret_cast<const char*>(object->dlpi_addr + segment.p_vaddr);
    if (const auto id = build_id_in({begin, segment.p_memsz}, segment.p_align == 8 ? 8 : 4))
      *static_cast<std::optional<std::string_view>*>(found) = id;
  }
  return 1;
}

std::string hash_of_the_file() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  if (!file) return "";
  Fnv1a hash;
  std::array<char, 65536> block;
  while (file.read(block.data(), block.size()) || file.gcount() > 0)
    hash.add(block.data(), static_cast<size_t>(file.gcount()));
  return hash.hex();
}

// Present in a binary that a sanitizer instruments, null elsewhere.
extern "C" __attribute__((weak)) void __asan_init();
extern "C" __attribute__((weak)) void __tsan_init();

/// What the build allows one to expect of its timings.
std::string build_type() {
  bool assertions = false;
  assert((assertions = true));
  void (*volatile asan)() = __asan_init;
  void (*volatile tsan)() = __tsan_init;
  if (asan != nullptr) return "address sanitizer";
  if (tsan != nullptr) return "thread sanitizer";
  return assertions ? "with assertions" : "release";
}

std::optional<std::string> cpu_model_of(const std::string& cpuinfo) {
  const auto name = field_of(cpuinfo, "model name", ':');
  return name ? name : field_of(cpuinfo, "CPU part", ':');
}

std::string machine_id(const std::string& cpuinfo, const CudaFacts& cuda) {
  std::string machine =
      fmt::format("{}|{}|{}", cpu_model_of(cpuinfo).value_or(""), isa_of(cpuinfo).dump(), usable_cores());
  for (const CudaDeviceFacts& device : cuda.devices) machine += "|" + device.name;
  return fnv1a64_hex(machine).substr(0, 8);
}

}  // namespace

std::optional<std::string_view> build_id_in(std::string_view notes, size_t align) {
  const auto padded = [align](size_t size) { return (size + align - 1) / align * align; };
  while (notes.size() >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) header;
    std::memcpy(&header, notes.data(), sizeof(header));
    notes.remove_prefix(sizeof(header));
    const size_t name_bytes = padded(header.n_namesz), id_bytes = header.n_descsz;
    if (name_bytes > notes.size() || id_bytes > notes.size() - name_bytes) return std::nullopt;
    const std::string_view name = notes.substr(0, header.n_namesz), id = notes.substr(name_bytes, id_bytes);
    if (header.n_type == NT_GNU_BUILD_ID && name == std::string_view("GNU", 4)) return id;
    notes.remove_prefix(std::min(notes.size(), name_bytes + padded(id_bytes)));
  }
  return std::nullopt;
}

std::string program_hash() {
  std::optional<std::string_view> id;
  ::dl_iterate_phdr(take_build_id, &id);
  return id ? fnv1a64_hex(*id) : hash_of_the_file();
}

std::string this_machine_id() {
  return machine_id(read_text("/proc/cpuinfo").value_or(""), probe_cuda(ProbeDepth::listed));
}

json collect_environment() {
  const std::string cpuinfo = read_text("/proc/cpuinfo").value_or("");
  const std::string meminfo = read_text("/proc/meminfo").value_or("");
  const auto quota = core_limits().quota;
  const auto load = read_text("/proc/loadavg");
  const CudaFacts cuda = probe_cuda(ProbeDepth::listed);
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  utsname system{};
  uname(&system);
  return {{"cpu_model", or_null(cpu_model_of(cpuinfo))},
          {"isa", isa_of(cpuinfo)},
          {"architecture", system.machine},
          {"cores_online", sysconf(_SC_NPROCESSORS_ONLN)},
          {"cores_available", usable_cores()},
          {"cgroup_cpus", quota ? json(*quota) : json(nullptr)},
          {"memory_total_bytes", meminfo_bytes(meminfo, "MemTotal")},
          {"memory_available_bytes", meminfo_bytes(meminfo, "MemAvailable")},
          {"cgroup_memory_bytes", cgroup_memory_bytes()},
          {"kernel", fmt::format("{} {}", system.sysname, system.release)},
          {"os", or_null(field_of(read_text("/etc/os-release").value_or(""), "PRETTY_NAME", '='))},
          {"hostname_hash", fnv1a64_hex(system.nodename)},
          {"compiler", build_info().compiler},
          {"compiler_flags", build_info().flags},
          {"build_type", build_type()},
          {"git_commit", build_info().commit},
          {"git_dirty", build_info().dirty},
          {"binary_hash", program_hash()},
          {"load_average", load ? json(load->substr(0, load->find(' '))) : json(nullptr)},
          {"gpus", gpus_of(cuda)},
          {"gpu_driver", gpu_driver(cuda.driver)},
          {"cuda_visible_devices", visible ? json(visible) : json(nullptr)},
          {"started_at", utc_now()},
          {"machine_id", machine_id(cpuinfo, cuda)}};
}

}  // namespace paceline
