#pragma once
// The CPU backend: float32 activations, weights and KV in their stored width, bodies of one instruction set
// (cpu_kernels.h) run by one thread pool. An op has completed when the call returns; small ops run on the caller.

#include <atomic>
#include <chrono>
#include <memory>
#include <unordered_map>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/cpu/mapped_memory.h"
#include "kernels/cpu/rope_table.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/cpu/weight_arena.h"

namespace paceline {

class CpuBackend final : public Backend {
 public:
  /// Throws Error(device) when the machine or the build lacks options.isa.
  explicit CpuBackend(const BackendOptions& options);

  std::string describe() const override;
  void* alloc(size_t bytes) override;
  void free(void* data) noexcept override;
  void upload(void* to, const void* from, size_t bytes) override;
  void download(void* to, const void* from, size_t bytes) override;
  void sync() override {}
  bool packs_made_rows() const override { return true; }
  Weight pack(std::span<const HostWeight> stacked_rows, const PackSpec& spec) override;

  void gemm(const GemmArgs& args) override;
  void norm(const NormArgs& args) override;
  void gather_rows(const GatherRowsArgs& args) override;
  void embed(const EmbedArgs& args) override;
  void rope(const RopeArgs& args) override;
  void activation(const ActivationArgs& args) override;
  void norm_heads(const HeadNormArgs& args) override;
  void softcap(const SoftcapArgs& args) override;
  void store_kv(const StoreKvArgs& args) override;
  void move_kv(const KvView& kv, std::span<const SlotMove> moves) override;
  void attention(const AttentionArgs& args) override;
  void norm_gemm(const NormArgs& norm, const GemmArgs& gemm) override;
  void rope_attention(const RopeArgs& rope, const StoreKvArgs& store, const AttentionArgs& attention) override;
  void edit_logits(const EditArgs& args) override;
  void sample(const SampleArgs& args) override;
  void accept(const AcceptArgs& args) override;
  void top_k(const TopKArgs& args) override;

  Traffic traffic() const override { return traffic_; }
  void begin_work(WorkKind kind) override;
  void end_work(double waited_s) override;
  Work work(WorkKind kind) override { return ledger_.of(kind); }
  MemoryUse memory() const override;
  double wait_seconds() const override { return pool_.wait_seconds(); }
  ThreadPool* host_threads() override { return &pool_; }

 private:
  RopeTable& rope_table(std::span<const double> inv_freq, float attention_factor);
  /// Null without rotation; the positions of args are prepared.
  const RopeTable* prepared_rope(const RopeArgs& args);
  void count_gemm(const GemmArgs& args);

  const Isa isa_;
  const CpuKernels& kernels_;
  ThreadPool pool_;
  Traffic traffic_;
  WorkLedger ledger_;
  std::chrono::steady_clock::time_point work_begun_;
  std::unordered_map<void*, MappedMemory> buffers_;
  size_t buffer_bytes_ = 0;
  std::shared_ptr<std::atomic<size_t>> weight_bytes_ = std::make_shared<std::atomic<size_t>>(0);
  WeightArena weight_arena_;
  MappedMemory gemm_tiles_;
  CpuAttention attention_;
  std::vector<std::unique_ptr<RopeTable>> rope_tables_;  // one per frequency set in use: a handful
};

/// Null when this build or this machine cannot run `isa`.
const CpuKernels* kernels_for(Isa isa);

}  // namespace paceline
