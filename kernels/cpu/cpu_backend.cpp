#include "kernels/cpu/cpu_backend.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/accept.h"
#include "kernels/cpu/cpu_weight.h"
#include "kernels/cpu/edit_logits.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/sample.h"

namespace paceline {
namespace {

static_assert(kLanes == kPanel && kChunkKeys == kAttentionChunk);

/// Elements below which a row-wise op stays on the caller (a few microseconds of work).
constexpr int64_t kInlineElements = 1536;

/// Rows a worker should take at least when a row has `row_elements`.
int64_t row_grain(int64_t row_elements) {
  return std::max<int64_t>(1, kInlineElements / std::max<int64_t>(1, row_elements));
}

const CpuKernels& checked_kernels(Isa isa) {
  const CpuKernels* kernels = kernels_for(isa);
  if (!kernels)
    fail(ExitCode::device, "device cpu: this build or machine has no {}; the best here is {}", isa_name(isa),
         isa_name(best_isa()));
  return *kernels;
}

NormWork norm_work(const NormArgs& args) {
  return {.layer = args.kind == NormKind::layer,
          .residual = args.residual.f32_row(0),
          .residual_stride = args.residual.stride,
          .delta = args.delta.f32_row(0),
          .delta_stride = args.delta.stride,
          .delta_bias = args.delta_bias,
          .weight = args.weight,
          .bias = args.bias,
          .eps = args.eps,
          .out = args.out.f32_row(0),
          .out_stride = args.out.stride,
          .cols = args.residual.cols};
}

/// Heads [head, head + num_heads) of one row.
void rotate(const CpuKernels& kernels, const RopeArgs& args, const RopeTable& table, int64_t row, int head,
            int num_heads) {
  const int32_t position = args.position[size_t(row)];
  if (position < 0) return;
  const float* factors = table.row(position);
  kernels.rope(RopeWork{.x = args.x.f32_row(row) + int64_t{head} * args.head_dim,
                        .num_heads = num_heads,
                        .head_dim = args.head_dim,
                        .rotary_dim = args.rotary_dim,
                        .interleaved = args.layout == RopeLayout::interleaved,
                        .cos = factors,
                        .sin = factors + table.half()});
}

StoreKvWork store_work(const StoreKvArgs& args) {
  const KvView& kv = args.kv;
  return {.k = args.k.f32_row(0),
          .k_stride = args.k.stride,
          .v = args.v.f32_row(0),
          .v_stride = args.v.stride,
          .slot = args.slot.data(),
          .k_page = kv.k,
          .v_page = kv.v,
          .block_size = kv.block_size,
          .num_kv_heads = kv.num_kv_heads,
          .k_dim = kv.k_dim,
          .v_dim = kv.v_dim};
}

char* kv_element(void* base, const KvView& kv, int64_t index) {
  return static_cast<char*>(base) + index * int64_t(dtype_bytes(kv.dtype));
}

}  // namespace

CpuBackend::CpuBackend(const BackendOptions& options)
    : isa_(options.isa < 0 ? fastest_isa() : Isa(options.isa)),
      kernels_(checked_kernels(isa_)),
      pool_(options.threads, options.may_spin) {}

std::string CpuBackend::describe() const {
  return fmt::format("cpu {} {} thread{}", isa_name(isa_), pool_.num_threads(), pool_.num_threads() == 1 ? "" : "s");
}

void* CpuBackend::alloc(size_t bytes) {
  MappedMemory memory(bytes);
  void* data = memory.data();
  buffer_bytes_ += memory.bytes();
  buffers_.emplace(data, std::move(memory));
  return data;
}

void CpuBackend::free(void* data) noexcept {
  const auto found = buffers_.find(data);
  if (found == buffers_.end()) return;
  buffer_bytes_ -= found->second.bytes();
  buffers_.erase(found);
}

void CpuBackend::upload(void* to, const void* from, size_t bytes) {
  if (bytes) std::memcpy(to, from, bytes);
}
void CpuBackend::download(void* to, const void* from, size_t bytes) {
  if (bytes) std::memcpy(to, from, bytes);
}

Weight CpuBackend::pack(std::span<const HostWeight> stacked_rows, const PackSpec& spec) {
  std::shared_ptr<CpuWeight> weight = pack_weight(stacked_rows, spec, kernels_, pool_, weight_arena_);
  weight->bytes_alive = weight_bytes_;
  weight_bytes_->fetch_add(weight->bytes);
  return weight;
}

MemoryUse CpuBackend::memory() const { return MemoryUse{.weights = weight_bytes_->load(), .buffers = buffer_bytes_}; }

void CpuBackend::gemm(const GemmArgs& args) {
  cpu_gemm(args, nullptr, kernels_, pool_, gemm_tiles_);
  count_gemm(args);
}

void CpuBackend::count_gemm(const GemmArgs& args) {
  if (args.x.rows == 0) return;
  traffic_.weight_bytes += args.w->bytes;
  traffic_.flops += uint64_t(2) * uint64_t(args.x.rows) * uint64_t(args.w->n) * uint64_t(args.w->k);
}

void CpuBackend::norm(const NormArgs& args) {
  const NormWork work = norm_work(args);
  pool_.parallel_ranges(args.residual.rows, row_grain(args.residual.cols),
                        [&](int64_t begin, int64_t end, int) { kernels_.norm(work, begin, end); });
}

void CpuBackend::norm_gemm(const NormArgs& norm_args, const GemmArgs& gemm_args) {
  if (norm_args.delta.data) return Backend::norm_gemm(norm_args, gemm_args);
  // each worker norms what it reads: cheaper than waiting for another
  const NormWork work = norm_work(norm_args);
  cpu_gemm(gemm_args, &work, kernels_, pool_, gemm_tiles_);
  count_gemm(gemm_args);
}

void CpuBackend::gather_rows(const GatherRowsArgs& args) {
  for (size_t i = 0; i < args.row.size(); ++i)
    std::memcpy(args.to.f32_row(args.to_row.empty() ? int64_t(i) : args.to_row[i]), args.from.f32_row(args.row[i]),
                size_t(args.from.cols) * sizeof(float));
}

void CpuBackend::embed(const EmbedArgs& args) {
  const auto& table = static_cast<const CpuWeight&>(*args.table);
  const auto unpack = kernels_.unpack_row[storage_index(table.dtype)];
  const PanelOrder order = table.order();
  pool_.parallel_ranges(int64_t(args.token.size()), row_grain(table.k * 8), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      const int32_t cell = cell_of_token(args.token[size_t(row)]);
      const int64_t token = args.token_cells && cell >= 0 ? args.token_cells[cell] : args.token[size_t(row)];
      const int64_t at = token - args.row_begin;
      float* out = args.out.f32_row(row);
      if (token >= 0 && at >= 0 && at < table.n)
        unpack(table.memory.data, at, order, out);
      else
        std::fill(out, out + table.k, -0.0f);
      if (args.scale != 1.0f)
        for (int64_t i = 0; i < table.k; ++i) out[i] *= args.scale;
    }
  });
}

RopeTable& CpuBackend::rope_table(std::span<const double> inv_freq, float attention_factor) {
  for (const auto& table : rope_tables_)
    if (table->matches(inv_freq, attention_factor)) return *table;
  rope_tables_.push_back(std::make_unique<RopeTable>(inv_freq, attention_factor));
  return *rope_tables_.back();
}

const RopeTable* CpuBackend::prepared_rope(const RopeArgs& args) {
  if (args.rotary_dim / 2 == 0) return nullptr;
  PACELINE_CHECK(int(args.inv_freq.size()) == args.rotary_dim / 2 && args.rotary_dim <= args.head_dim,
                 "rotary_dim {}, head_dim {}, inv_freq {}", args.rotary_dim, args.head_dim, args.inv_freq.size());
  RopeTable& table = rope_table(args.inv_freq, args.attention_factor);
  for (const int32_t position : args.position)
    if (position >= 0) table.prepare(position);
  return &table;
}

void CpuBackend::rope(const RopeArgs& args) {
  const RopeTable* const table = prepared_rope(args);
  if (!table) return;
  pool_.parallel_ranges(int64_t(args.position.size()), row_grain(args.num_heads * args.rotary_dim),
                        [&](int64_t begin, int64_t end, int) {
                          for (int64_t row = begin; row < end; ++row)
                            rotate(kernels_, args, *table, row, 0, args.num_heads);
                        });
}

void CpuBackend::activation(const ActivationArgs& args) {
  pool_.parallel_ranges(args.x.rows, row_grain(args.x.cols * 2), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) kernels_.activation(args.x.f32_row(row), args.x.cols, args.activation);
  });
}

void CpuBackend::norm_heads(const HeadNormArgs& args) {
  PACELINE_CHECK(args.x.cols == args.num_heads * args.head_dim, "{} columns for {} heads of {}", args.x.cols,
                 args.num_heads, args.head_dim);
  pool_.parallel_ranges(args.x.rows, row_grain(args.x.cols), [&](int64_t begin, int64_t end, int) {
    for (int head = 0; head < args.num_heads; ++head) {
      float* const x = args.x.f32_row(0) + int64_t{head} * args.head_dim;
      kernels_.norm({.layer = args.kind == NormKind::layer,
                     .residual = x,
                     .residual_stride = args.x.stride,
                     .weight = args.weight + (args.weight_per_head ? int64_t{head} * args.head_dim : 0),
                     .eps = args.eps,
                     .out = x,
                     .out_stride = args.x.stride,
                     .cols = args.head_dim},
                    begin, end);
    }
  });
}

void CpuBackend::softcap(const SoftcapArgs& args) {
  pool_.parallel_ranges(args.x.rows, row_grain(args.x.cols * 2), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) kernels_.softcap(args.x.f32_row(row), args.x.cols, args.cap);
  });
}

void CpuBackend::store_kv(const StoreKvArgs& args) {
  const StoreKvWork work = store_work(args);
  const auto store = kernels_.store_kv[storage_index(args.kv.dtype)];
  const int64_t num_rows = int64_t(args.slot.size());
  // by head: two workers never write to one cache line
  pool_.parallel_ranges(args.kv.num_kv_heads, row_grain(num_rows * (args.kv.k_dim + args.kv.v_dim)),
                        [&](int64_t begin, int64_t end, int) {
                          for (int64_t head = begin; head < end; ++head) store(work, int(head), 0, num_rows);
                        });
}

void CpuBackend::move_kv(const KvView& kv, std::span<const SlotMove> moves) {
  const size_t element = dtype_bytes(kv.dtype);
  const int64_t size = kv.block_size;
  for (const SlotMove& move : moves) {
    if (move.from == move.to) continue;
    for (int64_t head = 0; head < kv.num_kv_heads; ++head) {
      const int64_t from = move.from / size * kv.num_kv_heads + head;
      const int64_t to = move.to / size * kv.num_kv_heads + head;
      for (int64_t d = 0; d < kv.k_dim; ++d)
        std::memcpy(kv_element(kv.k, kv, (to * kv.k_dim + d) * size + move.to % size),
                    kv_element(kv.k, kv, (from * kv.k_dim + d) * size + move.from % size), element);
      if (kv.v)
        std::memcpy(kv_element(kv.v, kv, (to * size + move.to % size) * kv.v_dim),
                    kv_element(kv.v, kv, (from * size + move.from % size) * kv.v_dim), size_t(kv.v_dim) * element);
    }
  }
}

void CpuBackend::attention(const AttentionArgs& args) {
  attention_.plan(args, kernels_, pool_.num_threads());
  attention_.run(args, {}, kernels_, pool_, traffic_);
}

void CpuBackend::rope_attention(const RopeArgs& rope_args, const StoreKvArgs& store_args, const AttentionArgs& args) {
  attention_.plan(args, kernels_, pool_.num_threads());
  if (!attention_.one_task_per_head()) {
    rope(rope_args);
    store_kv(store_args);
    attention_.run(args, {}, kernels_, pool_, traffic_);
    return;
  }
  const RopeTable* const table = prepared_rope(rope_args);
  const StoreKvWork work = store_work(store_args);
  const auto store = kernels_.store_kv[storage_index(args.kv.dtype)];
  const auto prepare = [&](const AttentionTile& tile) {
    const int32_t row_end = tile.first_row + tile.line_end / tile.num_heads;
    for (int32_t row = tile.first_row; table && row < row_end; ++row) {
      rotate(kernels_, rope_args, *table, row, tile.head_begin, tile.num_heads);
      rotate(kernels_, rope_args, *table, row, args.num_heads + tile.kv_head, 1);
    }
    store(work, tile.kv_head, tile.first_row, row_end);
  };
  attention_.run(args, std::ref(prepare), kernels_, pool_, traffic_);
}

void CpuBackend::begin_work(WorkKind kind) {
  ledger_.begin(kind, traffic_);
  work_begun_ = std::chrono::steady_clock::now();
}

void CpuBackend::end_work(double waited_s) {
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - work_begun_;
  ledger_.add_seconds(ledger_.end(traffic_), passed.count() - waited_s);
}

void CpuBackend::edit_logits(const EditArgs& args) { cpu_edit_logits(args, pool_); }
void CpuBackend::sample(const SampleArgs& args) {
  cpu_sample(args, pool_);
  for (int32_t& token : args.token.first(args.ids ? args.rows.size() : 0))
    if (token >= 0) token = args.ids[token];
  for (size_t i = 0; args.token_cells && i < args.rows.size(); ++i)
    if (args.rows[i].token_cell >= 0) args.token_cells[args.rows[i].token_cell] = args.token[i];
  traffic_.logit_bytes += logit_bytes(args);
}
void CpuBackend::top_k(const TopKArgs& args) {
  cpu_top_k(args, pool_);
  traffic_.logit_bytes += logit_bytes(args);
}
void CpuBackend::accept(const AcceptArgs& args) {
  cpu_accept(args, pool_);
  for (size_t i = 0; args.token_cells && i < args.rows.size(); ++i)
    if (args.rows[i].token_cell >= 0 && args.rows[i].draft_len == 0)
      args.token_cells[args.rows[i].token_cell] = args.result[i].next;
  traffic_.logit_bytes += logit_bytes(args);
}

}  // namespace paceline
