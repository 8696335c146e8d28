// Preloaded into a program by tests: its n-th allocation by operator new fails, n = PACELINE_FAIL_NEW.

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

long asked() {
  static const long number = [] {
    const char* const text = std::getenv("PACELINE_FAIL_NEW");
    return text ? std::atol(text) : 0;
  }();
  return number;
}

bool fails() {
  static std::atomic<long> calls{0};
  return ++calls == asked();
}

void* allocated(std::size_t size, std::size_t alignment) {
  if (fails()) throw std::bad_alloc();
  if (size == 0) size = 1;
  void* const memory = alignment > alignof(std::max_align_t)
                           ? std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment)
                           : std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t size) { return allocated(size, 0); }
void* operator new[](std::size_t size) { return allocated(size, 0); }
void* operator new(std::size_t size, std::align_val_t alignment) { return allocated(size, std::size_t(alignment)); }
void* operator new[](std::size_t size, std::align_val_t alignment) { return allocated(size, std::size_t(alignment)); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
