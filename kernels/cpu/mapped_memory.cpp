#include "kernels/cpu/mapped_memory.h"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <sys/mman.h>

#include "kernels/cpu/extent.h"
#include "kernels/error.h"

namespace paceline {
namespace {

constexpr size_t kPage = 4096;

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

MappedMemory::MappedMemory(size_t bytes) : bytes_(bytes) {
  const bool huge = bytes >= kHugePage;
  if (bytes > SIZE_MAX - 2 * kHugePage)
    fail(ExitCode::device, "device cpu: cannot allocate {} bytes; expected a size that fits the address space", bytes);
  mapping_bytes_ = huge ? round_up(bytes, kHugePage) + kHugePage : round_up(bytes + (bytes == 0), kPage);
  mapping_ = mmap(nullptr, mapping_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping_ == MAP_FAILED) {
    mapping_ = nullptr;
    fail(ExitCode::device, "device cpu: cannot allocate {} bytes: {}; use a smaller model, KV pool or batch", bytes,
         std::strerror(errno));
  }
  data_ = mapping_;
  if (huge) {
    data_ = reinterpret_cast<void*>(round_up(reinterpret_cast<uintptr_t>(mapping_), kHugePage));
    madvise(data_, round_up(bytes, kHugePage), MADV_HUGEPAGE);  // a wish: small pages work too
  }
  char* const end = static_cast<char*>(data_) + bytes;
  forbid_extent(end, size_t(static_cast<char*>(mapping_) + mapping_bytes_ - end));
}

MappedMemory::~MappedMemory() {
  if (!mapping_) return;
  permit_extent(mapping_, mapping_bytes_);  // the next owner of these addresses
  munmap(mapping_, mapping_bytes_);
}

}  // namespace paceline
