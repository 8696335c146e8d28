#pragma once
// A backend that computes nothing: pack() keeps the matrix in the open, so that tests see what was loaded where.

#include <memory>
#include <vector>

#include "kernels/backend.h"

namespace paceline::test {

/// What pack() was given: the stacked rows as float32 (padding rows zero), before any panel layout.
class RecordedWeight : public PackedWeight {
 public:
  std::vector<float> values;           // [n, k]
  std::vector<int64_t> part_rows;      // rows of each stacked part
  std::vector<const void*> part_data;  // where each part lay: a view into the checkpoint's mapping
  PackSpec spec;
  float at(int64_t row, int64_t col) const { return values[size_t(row * k + col)]; }
};

inline const RecordedWeight& recorded(const Weight& weight) { return dynamic_cast<const RecordedWeight&>(*weight); }

/// alloc, upload and the like work on host memory; the compute ops do nothing.
class RecordingBackend : public Backend {
 public:
  std::string describe() const override { return "recording"; }
  void* alloc(size_t bytes) override;
  void free(void* data) noexcept override;
  void upload(void* to, const void* from, size_t bytes) override;
  void download(void* to, const void* from, size_t bytes) override;
  void sync() override {}
  bool packs_made_rows() const override { return true; }
  Weight pack(std::span<const HostWeight> stacked_rows, const PackSpec& spec) override;

  void gemm(const GemmArgs&) override {}
  void norm(const NormArgs&) override {}
  void gather_rows(const GatherRowsArgs&) override {}
  void embed(const EmbedArgs&) override {}
  void rope(const RopeArgs&) override {}
  void activation(const ActivationArgs&) override {}
  void norm_heads(const HeadNormArgs&) override {}
  void softcap(const SoftcapArgs&) override {}
  void store_kv(const StoreKvArgs&) override {}
  void move_kv(const KvView&, std::span<const SlotMove>) override {}
  void attention(const AttentionArgs&) override {}
  void edit_logits(const EditArgs&) override {}
  void sample(const SampleArgs&) override {}
  void accept(const AcceptArgs&) override {}
  void top_k(const TopKArgs&) override {}
  Traffic traffic() const override { return {}; }
  void begin_work(WorkKind) override {}
  void end_work(double) override {}
  Work work(WorkKind) override { return {}; }
  MemoryUse memory() const override { return {}; }
  double wait_seconds() const override { return 0.0; }

  std::vector<std::shared_ptr<const RecordedWeight>> packed;  // in the order of the calls
};

}  // namespace paceline::test
