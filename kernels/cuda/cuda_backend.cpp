#include "kernels/cuda/cuda_backend.h"

#include <algorithm>
#include <functional>
#include <list>
#include <optional>
#include <unordered_map>
#include <vector>

#include "kernels/cpu/cpu_weight.h"
#include "kernels/cuda/attention.h"
#include "kernels/cuda/blas.h"
#include "kernels/cuda/block_tables.h"
#include "kernels/cuda/draw_results.h"
#include "kernels/cuda/edit_logits.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/launch_queue.h"
#include "kernels/cuda/pass_state.h"
#include "kernels/cuda/plain_rows.h"
#include "kernels/cuda/probe.h"
#include "kernels/cuda/push_sum.h"
#include "kernels/cuda/rope_tables.h"
#include "kernels/cuda/row_ops.h"
#include "kernels/cuda/stream_wait.h"
#include "kernels/cuda/upload_rows.h"
#include "kernels/cuda/work_timer.h"
#include "kernels/host_weight.h"

namespace paceline {
namespace {

using cuda::check;
using cuda::CudaWeight;
using cuda::DeviceMemory;

/// Most that attention takes for its chunks, or a gated product for gates and ups; drawing for weights.
constexpr size_t kScratchBytes = size_t{256} << 20, kDrawBytes = size_t{64} << 20;

/// At the end: peers' timeouts may be short, and their kernels be about to give up.
constexpr double kLeastPatience_s = 60;

/// One GPU and one stream. Spans of the arguments lie in host memory: they are staged, op by op.
class CudaBackend final : public Backend {
 public:
  CudaBackend(int device, const BackendOptions& options)
      : device_((check(cudaSetDevice(device), "cudaSetDevice"), device)),
        queue_(
            {options.graphs, options.early_starts}, [this] { sync(); }, [this] { timer_.resume(queue_.stream()); }),
        peers_(options.peers) {
    properties_ = cuda::supported_properties(device);
    cuda::prepare_gemm_bf16(properties_);
    cuda::prepare_attention(properties_);
    cuda::prepare_draw();
    if (options.numerics == Numerics::fast) blas_ = std::make_unique<cuda::Blas>(queue_.now());
  }
  ~CudaBackend() override {
    cuda::outlast_work(queue_.stream(), device_, std::max(kLeastPatience_s, peers_.timeout_s));
  }

  std::string describe() const override { return fmt::format("cuda:{} {}", device_, properties_.name); }
  uint64_t num_graphs_launched() const { return queue_.num_graphs_launched(); }
  CudaStream shared_stream() { return {device_, queue_.now(), queue_.modes().early_starts}; }

  void* alloc(size_t bytes) override {
    use();
    DeviceMemory memory(bytes, queue_.now());
    void* const data = memory.as<void>();
    buffer_bytes_ += memory.bytes();
    buffers_.emplace(data, std::move(memory));
    return data;
  }
  void free(void* data) noexcept override {
    const auto found = buffers_.find(data);
    if (found == buffers_.end()) return;
    buffer_bytes_ -= found->second.bytes();
    try {
      sync();
    } catch (...) {  // a peer failed, and kernels that wait for it may still use this memory: it goes with the backend
      return;
    }
    buffers_.erase(found);
  }
  void upload(void* to, const void* from, size_t bytes) override { copy(to, from, bytes); }
  void download(void* to, const void* from, size_t bytes) override { copy(to, from, bytes); }
  void sync() override {
    ++traffic_.host_waits;
    cuda::wait_for_work(paused_stream(), device_, peers_);
  }
  void run(uint64_t key, const std::function<void()>& body) override {
    use();
    const cuda::BlockTables::Pass pass(tables_);
    if (key == kNotRemembered) return body();
    queue_.run_pass(key, [&] {
      state_.begin_pass();
      body();
    });
  }

  Weight pack(std::span<const HostWeight> stacked_rows, const PackSpec& spec) override;

  void gemm(const GemmArgs& args) override { run_gemm(args, nullptr); }
  void norm(const NormArgs& args) override { run_norm(args, {}); }
  void norm_gemm(const NormArgs& norm, const GemmArgs& gemm) override;
  void gather_rows(const GatherRowsArgs& args) override {
    use();
    queue_.reserve(args.row.size_bytes() + args.to_row.size_bytes(), 2);
    const GatherRowsArgs staged{args.from, stage(args.row), args.to, stage(args.to_row)};
    cuda::gather_rows(staged, queue_.to());
  }
  void embed(const EmbedArgs& args) override {
    use();
    EmbedArgs staged = args;
    staged.token = stage(args.token);
    cuda::embed(staged, queue_.to());
  }
  void rope(const RopeArgs& args) override;
  void activation(const ActivationArgs& args) override { use(), cuda::activation(args, queue_.to()); }
  void norm_heads(const HeadNormArgs& args) override { use(), cuda::norm_heads(args, queue_.to()); }
  void softcap(const SoftcapArgs& args) override { use(), cuda::softcap(args, queue_.to()); }
  void store_kv(const StoreKvArgs& args) override {
    use();
    storage_index(args.kv.dtype);
    StoreKvArgs staged = args;
    staged.slot = stage(args.slot);
    cuda::store_kv(staged, queue_.to());
    state_.wrote_kv();
  }
  void move_kv(const KvView& kv, std::span<const SlotMove> moves) override {
    use();
    state_.wrote_kv();
    if (moves.empty()) return;
    const std::span<const SlotMove> staged = stage(moves);
    cuda::move_kv(kv, staged, queue_.to());
  }
  void* alloc_host(size_t bytes) override {
    use();
    try {
      return host_blocks_.emplace_back(bytes).as<void>();
    } catch (const Error& error) {
      cudaGetLastError();
      fail(ExitCode::device, "device cuda:{}: {} bytes of swap space: {}; lower it", device_, bytes, error.what());
    }
  }
  void free_host(void* data) noexcept override {
    try {
      sync();
      std::erase_if(host_blocks_, [data](const cuda::HostMemory& memory) { return memory.as<void>() == data; });
    } catch (...) {  // as in free()
    }
  }
  void attention(const AttentionArgs& args) override;
  void rope_attention(const RopeArgs& rope, const StoreKvArgs& store, const AttentionArgs& attention) override;
  void edit_logits(const EditArgs& args) override;
  void sample(const SampleArgs& args) override;
  void accept(const AcceptArgs& args) override;
  void top_k(const TopKArgs& args) override;
  uint64_t num_draws() const override { return draws_.num_calls(); }
  void await_draws(uint64_t calls) override;

  Traffic traffic() const override { return traffic_; }
  void begin_work(WorkKind kind) override {
    use();
    timer_.collect(ledger_);
    ledger_.begin(kind, traffic_);
    timer_.begin(kind, queue_.sent());
  }
  void end_work(double) override {
    use();
    ledger_.end(traffic_);
    if (queue_.is_in_pass()) queue_.sent();  // the piece's kernels
    timer_.end();
  }
  void pause_work() override { paused_stream(); }
  Work work(WorkKind kind) override {
    use();
    timer_.collect(ledger_);
    return ledger_.of(kind);
  }
  MemoryUse memory() const override { return {.weights = weight_bytes_->load(), .buffers = buffer_bytes_}; }
  double wait_seconds() const override { return 0.0; }

 private:
  void use() const { check(cudaSetDevice(device_), "cudaSetDevice"); }
  void copy_block(void* to, const void* from, size_t bytes) override {
    use();
    state_.wrote_kv();
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, queue_.now()), "cudaMemcpyAsync");
  }
  void copy(void* to, const void* from, size_t bytes) {
    use();
    if (bytes == 0) return;
    if (peers_.failed) sync();  // a copy to pageable memory waits without looking at the peers
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, queue_.now()), "cudaMemcpyAsync");
    sync();
  }
  template <class T>
  std::span<T> stage(std::span<T> host) {
    return {static_cast<T*>(queue_.stage(host.data(), host.size_bytes())), host.size()};
  }
  /// At least `bytes`, kept for the next call.
  void* workspace(DeviceMemory& memory, size_t bytes) {
    if (memory.bytes() < bytes) {
      sync();
      memory = DeviceMemory();
      memory = DeviceMemory(bytes + bytes / 4, queue_.now());  // contexts grow a little at every step
    }
    return memory.as<void>();
  }
  /// `sum` as kernels get it, in `counted`: those of a pass count from a number that the device reads, so that their
  /// arguments are the same each time. Null of null.
  const PeerSum* counted_in_pass(const PeerSum* sum, PeerSum& counted) {
    if (!sum || !queue_.is_in_pass()) return sum;
    const uint32_t& first = state_.first_message(sum->message);
    counted = {.group = sum->group, .message = sum->message - first, .base = stage(std::span(&first, 1)).data()};
    return &counted;
  }
  void run_norm(const NormArgs& args, const cuda::Operand& operand);
  /// norm: null, or what makes args.x in the same kernel (norms_rows).
  void run_gemm(const GemmArgs& args, const NormArgs* norm);
  /// x: plain rows. In float32, or gated in slices of rows whose gates and ups fit the scratch.
  void multiply_by_blas(const GemmArgs& args, const cuda::Operand& x);
  /// Room for the operand of `w` from `rows` rows; the one before the last given out is spent.
  cuda::Operand make_operand(const PackedWeight& w, int rows);
  /// Where a kernel leaves rows that only the gemm of `reader` reads; null if it must leave them in `out`.
  cuda::Operand operand_for(const PackedWeight* reader, const MatView& out);
  /// keys_stay: as in AttentionPlan. before(): launches what comes ahead, and stages `before_bytes` in two pieces at
  /// most, so that all spans go to the device at once.
  template <class Before>
  void run_attention(const AttentionArgs& args, bool keys_stay, size_t before_bytes, Before&& before);
  /// Null without rotation.
  const float2* rope_factors(const RopeArgs& args);
  /// Launches; `reader` gets the results in await_draws().
  void draw(const MatView& logits, int32_t vocab_size, const cuda::Draws& draws, const MatView& probs,
            cuda::DrawResults::Reader reader);
  /// Before the host waits.
  cudaStream_t paused_stream() {
    use();
    timer_.pause(queue_.sent());
    return queue_.stream();
  }

  int device_;
  cudaDeviceProp properties_{};
  cuda::LaunchQueue queue_;
  const PeerWatch peers_;
  std::unordered_map<void*, DeviceMemory> buffers_;
  std::list<cuda::HostMemory> host_blocks_;
  size_t buffer_bytes_ = 0;
  std::shared_ptr<std::atomic<size_t>> weight_bytes_ = std::make_shared<std::atomic<size_t>>(0);
  std::unique_ptr<cuda::Blas> blas_;  // fast numerics
  DeviceMemory operand_[2], scratch_, draw_scratch_;
  cuda::SumHandover handover_;
  cuda::DrawResults draws_;
  cuda::PassState<cuda::Operand> state_;
  cuda::PageMapCache page_maps_;
  cuda::BlockTables tables_{queue_, [this] { sync(); }};
  cuda::RopeTables rope_tables_;
  Traffic traffic_;
  WorkLedger ledger_;
  cuda::WorkTimer timer_;
};

Weight CudaBackend::pack(std::span<const HostWeight> stacked_rows, const PackSpec& spec) {
  use();
  auto weight = std::make_shared<CudaWeight>();
  describe_packed(stacked_rows, spec, *weight);
  PACELINE_CHECK(weight->k > 0, "a weight of {} inputs", weight->k);
  PACELINE_CHECK(!spec.pair_panels || spec.k_chunks == kStrictChunks, "pair_panels with k_chunks {}", spec.k_chunks);
  for (const HostWeight& part : stacked_rows)
    if (any_unstorable(part, spec.dtype)) weight->has_unstorable = true;
  const int64_t values = weight->tiles() * weight->tile_values();
  weight->memory = DeviceMemory(size_t(values) * dtype_bytes(spec.dtype), queue_.now());
  if (spec.dtype == DType::bf16 && properties_.major >= 9 && weight->n > 0) weight->boxes = cuda::weight_boxes(*weight);
  if (const size_t copy_bytes = blas_ ? row_copy_bytes(weight->n, weight->k, spec) : 0; copy_bytes > 0)
    weight->row_copy = DeviceMemory(copy_bytes, queue_.now());
  weight->bytes = weight->memory.bytes() + weight->row_copy.bytes();
  weight->bytes_alive = weight_bytes_;
  *weight_bytes_ += weight->bytes;
  cuda::upload_rows(stacked_rows, *weight, queue_, [this] { sync(); });
  return weight;
}

cuda::Operand CudaBackend::make_operand(const PackedWeight& w, int rows) {
  const auto& weight = static_cast<const CudaWeight&>(w);
  cuda::Operand operand{
      .order = weight.order(),
      .rows = rows,
      .layout = weight.is_for_blas(rows) ? cuda::RowLayout::plain : cuda::strict_layout(properties_, rows)};
  operand.values = static_cast<__nv_bfloat16*>(workspace(operand_[state_.next_operand()], operand.bytes()));
  return operand;
}

cuda::Operand CudaBackend::operand_for(const PackedWeight* reader, const MatView& out) {
  const cuda::Operand none;
  if (!reader || reader->dtype != DType::bf16 || out.rows == 0) return none;
  PACELINE_CHECK(reader->k == out.cols, "rows of {} for a reader of {}", out.cols, reader->k);
  const cuda::Operand operand = make_operand(*reader, out.rows);
  if (!operand.is_exact()) return none;
  state_.made_operand(out.data, operand);
  return operand;
}

void CudaBackend::run_norm(const NormArgs& args, const cuda::Operand& operand) {
  use();
  if (args.residual.cols > cuda::kMaxNormCols)
    fail(ExitCode::device, "device cuda:{}: rows of {} values; norm takes at most {}", device_, args.residual.cols,
         cuda::kMaxNormCols);
  PACELINE_CHECK(!args.sum || (args.delta.data && args.delta.stride == args.delta.cols && args.delta.cols % 4 == 0 &&
                               args.delta.cols <= cuda::kMaxSummedCols),
                 "a sum over ranks of rows of {} values, {} apart", args.delta.cols, args.delta.stride);
  PeerSum sum;
  NormArgs counted = args;
  counted.sum = counted_in_pass(args.sum, sum);
  cuda::norm(counted, operand, args.sum && state_.has_sent(args.sum->message), properties_, queue_.to());
  if (args.residual.rows > 0) state_.normed();  // no rows: no kernel
}

void CudaBackend::norm_gemm(const NormArgs& norm_args, const GemmArgs& gemm_args) {
  const bool is_one = cuda::norms_rows(norm_args, gemm_args, properties_);
  if (!is_one) run_norm(norm_args, operand_for(gemm_args.w, gemm_args.x));
  run_gemm(gemm_args, is_one ? &norm_args : nullptr);
}

void CudaBackend::run_gemm(const GemmArgs& args, const NormArgs* norm) {
  use();
  const auto& w = static_cast<const CudaWeight&>(*args.w);
  PACELINE_CHECK(args.x.cols == w.k && args.y.cols == (args.glu ? w.n / 2 : w.n) && args.y.rows == args.x.rows,
                 "x [{}, {}], w [{}, {}], y [{}, {}], glu {}", args.x.rows, args.x.cols, w.n, w.k, args.y.rows,
                 args.y.cols, args.glu);
  PACELINE_CHECK(!args.glu || w.pair_panels, "glu {} needs a weight with pair_panels", args.glu);
  PACELINE_CHECK(!args.add || !(w.pair_panels || args.reader), "add {} with pair_panels {}, reader {}", args.add,
                 w.pair_panels, args.reader != nullptr);
  PACELINE_CHECK(!args.sum || !(args.add || w.pair_panels || args.reader || args.y.stride != args.y.cols),
                 "a sum over ranks with add {}, pair_panels {}, reader {}, rows of {} values {} apart", args.add,
                 w.pair_panels, args.reader != nullptr, args.y.cols, args.y.stride);
  PACELINE_CHECK(!norm || (!args.sum && norm->residual.rows == args.x.rows && norm->residual.cols == w.k),
                 "a norm of [{}, {}] for x [{}, {}]", norm->residual.rows, norm->residual.cols, args.x.rows, w.k);
  if (args.x.rows == 0 || w.n == 0) return;
  PeerSum sum;
  GemmArgs counted = args;
  counted.sum = counted_in_pass(args.sum, sum);
  if (norm) {
    state_.drop_operand();
    state_.normed();
    state_.sent_sum(0);
    cuda::norm_gemm_bf16(*norm, args, operand_for(args.reader, args.y), handover_, properties_, queue_.to());
  } else if (w.dtype == DType::bf16) {
    const std::optional<cuda::Operand> made = state_.take_operand(args.x.data);
    const cuda::Operand x = made ? *made : make_operand(w, args.x.rows);
    if (!made) cuda::pack_operand(args.x, x, queue_.to());
    PACELINE_CHECK(x.rows == args.x.rows && x.order.k == w.k && x.order.chunks == w.k_chunks,
                   "operand of {} rows of {} in {} chunks, wanted {}, {}, {}", x.rows, x.order.k, x.order.chunks,
                   args.x.rows, w.k, w.k_chunks);
    state_.sent_sum(cuda::hands_over(args, x) ? args.sum->message : 0);
    if (x.is_plain())
      multiply_by_blas(args, x);
    else
      cuda::gemm_bf16(counted, x, operand_for(args.reader, args.y), handover_, properties_, queue_.to());
  } else {
    state_.sent_sum(args.sum ? args.sum->message : 0);
    cuda::gemm_chain(counted, queue_.to());
  }
  traffic_.weight_bytes += w.memory.bytes();
  traffic_.flops += uint64_t(2) * uint64_t(args.x.rows) * uint64_t(w.n) * uint64_t(w.k);
}

void CudaBackend::multiply_by_blas(const GemmArgs& args, const cuda::Operand& x) {
  const auto& w = static_cast<const CudaWeight&>(*args.w);
  cuda::BlasProduct product{.rows = args.x.rows,
                            .n = int(w.n),
                            .k = int(w.k),
                            .x = x.values,
                            .w = w.row_copy.as<void>(),
                            .bias = args.bias,
                            .y = args.y.data,
                            .y_stride = args.y.stride,
                            .add = args.add};
  const auto multiply = [&] {
    queue_.now();  // the library's launches are not listed
    blas_->multiply(product);
  };
  if (!args.glu) return multiply();

  const cuda::Operand y = operand_for(args.reader, args.y);
  const size_t row_bytes = size_t(w.n) * sizeof(__nv_bfloat16);
  const int most_rows = std::max(1, int(kScratchBytes / row_bytes / cuda::kWideRows)) * cuda::kWideRows;
  const int slices = (args.x.rows + most_rows - 1) / most_rows;
  const int slice_rows =
      ((args.x.rows + slices - 1) / slices + cuda::kWideRows - 1) / cuda::kWideRows * cuda::kWideRows;
  auto* const both =
      static_cast<__nv_bfloat16*>(workspace(scratch_, size_t(std::min(slice_rows, args.x.rows)) * row_bytes));
  product.bias = nullptr;  // added with the gate: the library wants one in y's type
  product.y = both;
  product.y_dtype = DType::bf16;
  product.y_stride = w.n;
  for (int first = 0; first < args.x.rows; first += slice_rows) {
    product.rows = std::min(slice_rows, args.x.rows - first);
    product.x = x.values + int64_t{first} * w.k;
    multiply();
    cuda::gate_rows({.product = both,
                     .bias = args.bias,
                     .activation = args.activation,
                     .first_row = first,
                     .num_rows = product.rows,
                     .width = int(w.n / 2),
                     .y = args.y.f32_row(0),
                     .y_stride = args.y.stride,
                     .operand = y},
                    queue_.to());
  }
}

const float2* CudaBackend::rope_factors(const RopeArgs& args) {
  if (args.rotary_dim / 2 == 0 || args.position.empty()) return nullptr;
  PACELINE_CHECK(int(args.inv_freq.size()) == args.rotary_dim / 2 && args.rotary_dim <= args.head_dim,
                 "rotary_dim {}, head_dim {}, inv_freq {}", args.rotary_dim, args.head_dim, args.inv_freq.size());
  const int32_t highest = *std::max_element(args.position.begin(), args.position.end());
  cuda::RopeTable& table = rope_tables_.of(args);
  if (highest < table.positions) return table.factors.as<float2>();
  constexpr int32_t kFewest = 1024;
  table.positions = std::max({kFewest, highest + 1, 2 * table.positions});
  workspace(table.factors, size_t(table.positions) * table.inv_freq.size() * sizeof(float2));
  const std::span<const double> inv_freq = stage(args.inv_freq);
  cuda::rope_factors(inv_freq.data(), int(inv_freq.size()), args.attention_factor, table.positions,
                     table.factors.as<float2>(), queue_.to());
  state_.wrote_kv();
  return table.factors.as<float2>();
}

void CudaBackend::rope(const RopeArgs& args) {
  use();
  const float2* const factors = rope_factors(args);
  if (!factors) return;
  RopeArgs staged = args;
  staged.position = stage(args.position);
  cuda::rope(staged, factors, queue_.to());
}

void CudaBackend::rope_attention(const RopeArgs& rope_args, const StoreKvArgs& store, const AttentionArgs& args) {
  use();
  storage_index(args.kv.dtype);
  const float2* const factors = rope_factors(rope_args);
  const size_t before_bytes = rope_args.position.size_bytes() + store.slot.size_bytes();
  run_attention(args, state_.keys_stay(), before_bytes, [&](const cuda::AttentionPlan& plan) -> cuda::FreshRows {
    if (factors && cuda::takes_fresh_rows(rope_args, store, args, plan))
      return {.k = store.k.f32_row(0),
              .v = store.v.f32_row(0),
              .stride = store.k.stride,
              .factors = factors,
              .k_pages = store.kv.k,
              .v_pages = store.kv.v};
    RopeArgs rope = rope_args;
    StoreKvArgs staged = store;
    cuda::FreshRows fresh;
    if (factors && plan.whole && cuda::turns_queries(rope_args, args)) {
      fresh.factors = factors;
      rope.x = store.k;
      rope.num_heads = store.kv.num_kv_heads;
    }
    rope.position = stage(rope_args.position);
    staged.slot = stage(store.slot);
    if (factors)
      cuda::rope_store(rope, factors, staged, queue_.to());
    else
      cuda::store_kv(staged, queue_.to());
    return fresh;
  });
  state_.wrote_kv();
}

void CudaBackend::attention(const AttentionArgs& args) {
  run_attention(args, false, 0, [](const cuda::AttentionPlan&) { return cuda::FreshRows{}; });
}

template <class Before>
void CudaBackend::run_attention(const AttentionArgs& args, bool keys_stay, size_t before_bytes, Before&& before) {
  use();
  if (args.q.rows == 0) {
    before({});
    return;
  }
  cuda::check_attention(args, device_);
  traffic_ += cuda::attention_traffic(args);
  const cuda::Operand out = operand_for(args.reader, args.out);
  const cuda::PlacedBlocks& placed = tables_.place(args);
  AttentionArgs planned = args;
  planned.seqs = placed.seqs;
  cuda::AttentionSlices slices = cuda::plan_attention(planned, kScratchBytes, properties_);
  cuda::AttentionPlan& plan = slices.plan;
  plan.block = placed.block, plan.num_blocks = placed.num_blocks, plan.keys_stay = keys_stay;
  const cuda::PageMaps none;
  const cuda::PageMaps& maps = cuda::copies_boxes(args, properties_) ? page_maps_.of(args.kv) : none;
  cuda::FreshRows fresh;
  for (plan.first_row = 0; plan.first_row < args.q.rows; plan.first_row += slices.slice_rows) {
    plan.num_rows = std::min(slices.slice_rows, args.q.rows - plan.first_row);
    if (plan.num_rows < args.q.rows) cuda::make_tiles(planned, slices);
    queue_.reserve(cuda::staged_bytes(args, slices) + before_bytes, cuda::staged_pieces(args) + 2);
    cuda::stage_plan(args, slices, [this](auto host) { return stage(host).data(); });
    void* memory = slices.scratch_bytes() == 0 ? nullptr : workspace(scratch_, slices.scratch_bytes());
    if (plan.first_row == 0) fresh = before(plan);
    cuda::attention(args, plan, fresh, maps, out, memory, queue_.to());
  }
}

void CudaBackend::draw(const MatView& logits, int32_t vocab_size, const cuda::Draws& draws, const MatView& probs,
                       cuda::DrawResults::Reader reader) {
  use();
  if (draws.row.empty()) return reader({});
  const std::span<const cuda::StagedDraft> draft(draws.draft);
  const size_t row_bytes = size_t(vocab_size) * sizeof(float);
  const cuda::DrawParts parts = cuda::parts_of(draws.row, kDrawBytes / std::max<size_t>(row_bytes, 1));
  auto* const scratch =
      static_cast<float*>(workspace(draw_scratch_, parts.need_scratch ? parts.widest * row_bytes : 0));
  if (!draws_.has_room(draws.row.size())) await_draws(num_draws());
  const cuda::DrawResults::Call call = draws_.next(draws.row.size(), std::move(reader));
  cuda::DrawResult* result = call.result;
  for (const std::span<const cuda::DrawRow> part : parts.part) {
    queue_.reserve(part.size_bytes() + draft.size_bytes(), 2);
    const auto [row, of] = std::pair(stage(part), stage(draft).data());
    cuda::draw(logits, vocab_size, row, of, parts.have_blocks, probs, scratch, call.mark, result, queue_.to());
    result += part.size();
  }
}

void CudaBackend::await_draws(uint64_t calls) {
  bool has_waited = false;
  draws_.read(calls, [&, stream = paused_stream()](auto&& done) {
    if (!std::exchange(has_waited, true)) ++traffic_.host_waits;
    cuda::wait_for_work(stream, device_, peers_, done);
  });
}

void CudaBackend::edit_logits(const EditArgs& args) {
  use();
  for (const cuda::EditPart& part : cuda::edit_parts(args, cuda::StagingRing::kBytes / 2)) {
    queue_.reserve(part.bytes(), 3);
    EditArgs staged = part.args;
    staged.rows = stage(std::span(part.rows)), staged.edits = stage(staged.edits), staged.masks = stage(staged.masks);
    cuda::edit_logits(staged, queue_.to());
  }
}

void CudaBackend::sample(const SampleArgs& args) {
  traffic_.logit_bytes += logit_bytes(args);
  draw(args.logits, args.vocab_size, cuda::draws_of(args), args.probs,
       [token = args.token](std::span<const cuda::DrawResult> drawn) {
         for (size_t i = 0; i < drawn.size(); ++i) token[i] = drawn[i].token;
       });
  if (!args.later) await_draws(num_draws());
}

void CudaBackend::top_k(const TopKArgs& args) {
  traffic_.logit_bytes += logit_bytes(args);
  draw(args.logits, args.vocab_size, cuda::draws_of(args), {}, [args](std::span<const cuda::DrawResult> ranked) {
    for (size_t i = 0; i < ranked.size(); ++i) args.token[i] = ranked[i].token, args.prob[i] = ranked[i].prob;
  });
  await_draws(num_draws());
}

void CudaBackend::accept(const AcceptArgs& args) {
  const bool any_drafts = std::any_of(args.rows.begin(), args.rows.end(), [](auto& row) { return row.draft_len > 0; });
  draw(args.logits, args.vocab_size, cuda::draws_of(args), {}, [=, this](std::span<const cuda::DrawResult> drawn) {
    cuda::verdicts_of(args, drawn);
    if (any_drafts) traffic_.logit_bytes += logit_bytes(args);  // of those that were looked at
  });
  if (!any_drafts) traffic_.logit_bytes += logit_bytes(args.rows.size(), args.vocab_size);
  if (!args.later) await_draws(num_draws());
}

}  // namespace

std::unique_ptr<Backend> make_cuda_backend(int device, const BackendOptions& options) {
  check_cuda_device(device);
  return std::make_unique<CudaBackend>(device, options);
}

uint64_t cuda_graphs_launched(const Backend& backend) {
  const auto* const cuda = dynamic_cast<const CudaBackend*>(&backend);
  return cuda ? cuda->num_graphs_launched() : 0;
}

CudaStream cuda_stream(Backend& backend) {
  auto* const cuda = dynamic_cast<CudaBackend*>(&backend);
  return cuda ? cuda->shared_stream() : CudaStream{};
}

}  // namespace paceline
