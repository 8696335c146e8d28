#pragma once
// What an op may take for granted of those launched before it. Every op that writes pages, makes rows for a product or
// sends a sum says so here; one that does not would let its successor start early and read what is not yet there.

#include <cstdint>
#include <optional>

namespace paceline::cuda {

/// Of one stream, in launch order. Operand: the rows of a product (operand.h). Threads: the backend's.
template <class Operand>
class PassState {
 public:
  /// Messages count from the pass's first. Operands lie where they lay in other passes, unless one is waiting.
  void begin_pass() {
    first_message_.reset();
    if (!made_of_) next_operand_ = 0;
  }
  /// The first message asked about in this pass, as it stays.
  const uint32_t& first_message(uint32_t message) {
    if (!first_message_) first_message_ = message;
    return *first_message_;
  }

  /// K or V was written, by a kernel or a copy, or what turns them: attention must not read them before it has waited.
  void wrote_kv() { keys_stay_ = false; }
  /// A norm was launched, alone or in its product, behind all stores: both let their successor start only after their
  /// own wait, so pages written before it are there.
  void normed() { keys_stay_ = true; }
  /// As AttentionPlan::keys_stay.
  bool keys_stay() const { return keys_stay_; }

  /// Which of two buffers the next operand is written to: the one before the last is spent.
  int next_operand() { return next_operand_ ^= 1; }
  /// The rows at `out` lie in `operand`, for the next product alone.
  void made_operand(const void* out, const Operand& operand) {
    made_of_ = out;
    operand_ = operand;
  }
  /// For a product over the rows at `x`: their operand, where the op before has made it. Else what waits is dropped.
  std::optional<Operand> take_operand(const void* x) {
    const bool is_made = made_of_ == x;
    drop_operand();
    return is_made ? std::optional(operand_) : std::nullopt;
  }
  void drop_operand() { made_of_ = nullptr; }

  /// A product was launched that has sent its part of sum `message` to the peers. 0: of none.
  void sent_sum(uint32_t message) { sent_sum_ = message; }
  /// Whether the norm that adds sum `message` finds it sent.
  bool has_sent(uint32_t message) const { return sent_sum_ == message; }

 private:
  std::optional<uint32_t> first_message_;
  uint32_t sent_sum_ = 0;
  int next_operand_ = 0;
  bool keys_stay_ = false;
  const void* made_of_ = nullptr;
  Operand operand_;
};

}  // namespace paceline::cuda
