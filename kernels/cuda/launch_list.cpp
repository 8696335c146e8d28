#include "kernels/cuda/launch_list.h"

#include <algorithm>
#include <cstring>

#include "kernels/fnv1a.h"

namespace paceline::cuda {
namespace {

bool equal(const dim3& a, const dim3& b) { return a.x == b.x && a.y == b.y && a.z == b.z; }

bool has_kernel_of(const KernelCall& a, const KernelCall& b) {
  return a.function == b.function && equal(a.block, b.block) && a.shared_bytes == b.shared_bytes &&
         equal(a.options.cluster, b.options.cluster) && a.options.beside_large == b.options.beside_large;
}

}  // namespace

void LaunchList::add(const KernelCall& call, size_t index) {
  Entry entry{.call = call, .first_byte = bytes_.size(), .num_bytes = 0, .first_argument = at_.size()};
  entry.call.argument = nullptr;
  entry.call.argument_bytes = nullptr;
  for (size_t i = 0; i < call.num_arguments; ++i) {
    const size_t at = bytes_.size();
    bytes_.resize(at + (call.argument_bytes[i] + kAlign - 1) / kAlign * kAlign);
    std::memcpy(bytes_.data() + at, call.argument[i], call.argument_bytes[i]);
    at_.push_back(at);
  }
  entry.num_bytes = bytes_.size() - entry.first_byte;
  entries_.insert(entries_.begin() + std::ptrdiff_t(index), entry);
}

void LaunchList::clear() {
  entries_.clear();
  bytes_.clear();
  at_.clear();
}

KernelCall LaunchList::call(size_t index) {
  const Entry& entry = entries_[index];
  argument_.clear();
  for (size_t i = 0; i < entry.call.num_arguments; ++i)
    argument_.push_back(bytes_.data() + at_[entry.first_argument + i]);
  KernelCall call = entry.call;
  call.argument = argument_.data();
  return call;
}

bool LaunchList::has_kernels_of(const LaunchList& other) const {
  return std::ranges::equal(entries_, other.entries_,
                            [](const Entry& a, const Entry& b) { return has_kernel_of(a.call, b.call); });
}

bool LaunchList::differs_at(size_t index, const LaunchList& other) const {
  const Entry &mine = entries_[index], &theirs = other.entries_[index];
  return !equal(mine.call.grid, theirs.call.grid) || mine.num_bytes != theirs.num_bytes ||
         std::memcmp(bytes_.data() + mine.first_byte, other.bytes_.data() + theirs.first_byte, mine.num_bytes) != 0;
}

uint64_t LaunchList::hash_of_kernels() const {
  Fnv1a hash;
  for (const Entry& entry : entries_) {
    hash.add_word(reinterpret_cast<uintptr_t>(entry.call.function));
    for (const dim3& of : {entry.call.block, entry.call.options.cluster})
      for (const uint64_t size : {of.x, of.y, of.z}) hash.add_word(size);
    hash.add_word(entry.call.shared_bytes);
    hash.add_word(entry.call.options.beside_large);
  }
  return hash.value();
}

}  // namespace paceline::cuda
