#pragma once
// What a device does, counted by what it is for: bytes and operations by the ops, seconds by the device's clock.

#include <array>
#include <cstddef>
#include <cstdint>

namespace paceline {

/// Bytes and operations that the ops have moved so far; the roofline of a phase is a difference of two.
struct Traffic {
  uint64_t weight_bytes = 0;     // packed weights read, each product's once
  uint64_t kv_bytes = 0;         // KV read
  uint64_t logit_bytes = 0;      // logits that drawing and acceptance need, each row's once
  uint64_t flops = 0;            // multiply and add count as two
  uint64_t attention_flops = 0;  // of these, of attention
  uint64_t host_waits = 0;       // times the host waited for what the device was to give; 0 where it works itself

  Traffic& operator+=(const Traffic& more) {
    weight_bytes += more.weight_bytes;
    kv_bytes += more.kv_bytes;
    logit_bytes += more.logit_bytes;
    flops += more.flops;
    attention_flops += more.attention_flops;
    host_waits += more.host_waits;
    return *this;
  }
  Traffic operator-(const Traffic& before) const {
    return {.weight_bytes = weight_bytes - before.weight_bytes,
            .kv_bytes = kv_bytes - before.kv_bytes,
            .logit_bytes = logit_bytes - before.logit_bytes,
            .flops = flops - before.flops,
            .attention_flops = attention_flops - before.attention_flops,
            .host_waits = host_waits - before.host_waits};
  }
  bool operator==(const Traffic&) const = default;
  uint64_t bytes() const { return weight_bytes + kv_bytes + logit_bytes; }
};

enum class WorkKind : uint8_t {
  target,  // forward passes of the target
  draft,   // forward passes and samples of a draft model
  decide,  // accept and sample for the target
};
inline constexpr size_t kNumWorkKinds = 3;

/// All pieces of work of a kind so far.
struct Work {
  Traffic traffic;
  double seconds = 0;  // in which the device was at work on them

  Work& operator+=(const Work& more) {
    traffic += more.traffic;
    seconds += more.seconds;
    return *this;
  }
  Work operator-(const Work& before) const {
    return {.traffic = traffic - before.traffic, .seconds = seconds - before.seconds};
  }
};

/// Keeps the books of one backend; the backend brings traffic and time. Pieces do not nest; begin() drops a piece that
/// was never ended.
class WorkLedger {
 public:
  void begin(WorkKind kind, const Traffic& now) {
    kind_ = kind;
    begun_ = now;
  }
  /// Returns the kind of the piece.
  WorkKind end(const Traffic& now) {
    of_[size_t(kind_)].traffic += now - begun_;
    return kind_;
  }
  void add_seconds(WorkKind kind, double seconds) { of_[size_t(kind)].seconds += seconds; }
  const Work& of(WorkKind kind) const { return of_[size_t(kind)]; }

 private:
  WorkKind kind_ = WorkKind::target;
  Traffic begun_;
  std::array<Work, kNumWorkKinds> of_;
};

}  // namespace paceline
