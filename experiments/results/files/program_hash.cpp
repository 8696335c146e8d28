#include "experiments/results/files/program_hash.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <elf.h>
#include <fstream>
#include <link.h>

#include "engine/util/fnv1a.h"

namespace paceline {

namespace {

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

}  // namespace paceline
