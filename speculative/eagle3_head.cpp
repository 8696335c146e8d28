#include "speculative/eagle3_head.h"

#include <algorithm>
#include <numeric>

#include "engine/comm/work_scope.h"
#include "engine/model/rope.h"
#include "speculative/draft_columns.h"

namespace paceline {
namespace {

constexpr int kMostRememberedRows = 64;  // of passes that a device may remember: see RankModel

int64_t q_cols(const Eagle3Spec& spec) { return int64_t{spec.num_heads} * spec.head_dim; }
int64_t kv_cols(const Eagle3Spec& spec) { return int64_t{spec.num_kv_heads} * spec.head_dim; }
int64_t tap_cols(const Eagle3Spec& spec) { return int64_t(spec.taps.size()) * spec.target_hidden_size; }

}  // namespace

int64_t eagle3_widest_row(const Eagle3Spec& spec) {
  return std::max({tap_cols(spec), int64_t{2} * spec.hidden_size, q_cols(spec), int64_t{spec.intermediate_size}});
}

size_t eagle3_workspace_bytes(const Eagle3Spec& spec, const Eagle3Options& options) {
  const int64_t h = spec.hidden_size, rows = options.max_num_rows;
  const int64_t taps = tap_cols(spec) * (spec.norm_before_fc ? 2 : 1);
  const int64_t per_row = h * 5 + 2 * q_cols(spec) + 2 * kv_cols(spec) + spec.intermediate_size;
  const int64_t per_seq = h + spec.draft_vocab_size * int64_t{options.max_width} + 1;
  const size_t floats = size_t(taps * rows + h * options.num_features() + per_row * options.max_pass_rows() +
                               per_seq * options.max_num_seqs);
  const size_t spare_blocks = size_t(options.num_all_blocks() - options.num_blocks);
  return floats * sizeof(float) + spare_blocks * eagle3_block_bytes(spec, options.block_size, options.kv_dtype);
}

size_t eagle3_block_bytes(const Eagle3Spec& spec, int block_size, DType kv_dtype) {
  return size_t(2 * block_size) * size_t(kv_cols(spec)) * dtype_bytes(kv_dtype);
}

Eagle3Head::Eagle3Head(Eagle3Spec spec, Eagle3Weights weights, const Eagle3Options& options, Model& target, Rank& rank)
    : spec_(std::move(spec)),
      weights_(std::move(weights)),
      options_(options),
      target_(target),
      rank_(rank),
      backend_(*rank.backend) {
  const auto bytes = [&](size_t count) {
    allocations_.push_back(backend_.alloc(count));
    return allocations_.back();
  };
  const auto make = [&](int64_t rows, int64_t cols) {
    return f32_view(static_cast<float*>(bytes(size_t(rows) * size_t(cols) * sizeof(float))), int32_t(rows),
                    int32_t(cols));
  };
  const auto put = [&](const std::vector<float>& from) -> const float* {
    if (from.empty()) return nullptr;
    void* const to = bytes(from.size() * sizeof(float));
    backend_.upload(to, from.data(), from.size() * sizeof(float));
    return static_cast<const float*>(to);
  };
  vectors_ = {.input_norm = put(weights_.input_norm),
              .token_norm = put(weights_.token_norm),
              .feature_norm = put(weights_.feature_norm),
              .mlp_norm = put(weights_.mlp_norm),
              .last_norm = put(weights_.last_norm),
              .q_norm = put(weights_.q_norm),
              .k_norm = put(weights_.k_norm),
              .qkv_bias = put(weights_.qkv_bias)};
  if (!spec_.ids.empty()) {
    void* const to = bytes(spec_.ids.size() * sizeof(int32_t));
    backend_.upload(to, spec_.ids.data(), spec_.ids.size() * sizeof(int32_t));
    ids_ = static_cast<const int32_t*>(to);
  }
  cells_ = static_cast<int32_t*>(bytes(size_t(options.max_num_seqs) * sizeof(int32_t)));

  const int rows = options.max_num_rows, h = spec_.hidden_size;
  tapped_ = make(rows, tap_cols(spec_));
  if (spec_.norm_before_fc) normed_taps_ = make(rows, tap_cols(spec_));
  features_ = make(options.num_features(), h);
  const int of_pass = options.max_pass_rows();
  feature_ = make(of_pass, h);
  embedded_ = make(of_pass, h);
  input_ = make(of_pass, 2 * h);
  normed_ = make(of_pass, h);
  qkv_ = make(of_pass, q_cols(spec_) + 2 * kv_cols(spec_));
  attended_ = make(of_pass, q_cols(spec_));
  mlp_ = make(of_pass, spec_.intermediate_size);
  kept_ = make(options.max_num_seqs, h);
  all_logits_ = make(int64_t{options.max_num_seqs} * options.max_width, spec_.draft_vocab_size);
  every_row_.resize(size_t(of_pass));
  std::iota(every_row_.begin(), every_row_.end(), 0);

  kv_ = {.dtype = options.kv_dtype,
         .block_size = options.block_size,
         .num_kv_heads = spec_.num_kv_heads,
         .k_dim = spec_.head_dim,
         .v_dim = spec_.head_dim};
  half_block_bytes_ = kv_block_bytes(kv_);  // no V yet
  kv_.k = bytes(size_t(options.num_all_blocks()) * half_block_bytes_);
  kv_.v = bytes(size_t(options.num_all_blocks()) * half_block_bytes_);
  if (options.num_host_blocks > 0) {
    host_k_ = backend_.alloc_host(size_t(options.num_host_blocks) * half_block_bytes_);
    host_v_ = backend_.alloc_host(size_t(options.num_host_blocks) * half_block_bytes_);
  }
  inv_freq_ = rope_inv_freq(spec_.rope, spec_.max_position);
}

Eagle3Head::~Eagle3Head() {
  for (void* const data : allocations_) backend_.free(data);
  for (void* const data : {host_k_, host_v_})
    if (data) backend_.free_host(data);
}

void Eagle3Head::norm(const MatView& from, const float* weight, const MatView& to) {
  backend_.norm({.residual = from, .weight = weight, .eps = spec_.eps, .out = to});
}

void Eagle3Head::run(int kind, const Eagle3Rows& rows, const std::function<void()>& body) {
  if (rows.size() > kMostRememberedRows) return backend_.run(Backend::kNotRemembered, body);
  const size_t parts[] = {rows.seqs.size(), size_t(rows.size())};
  backend_.run(Backend::pass_key(reinterpret_cast<uintptr_t>(this) + uintptr_t(kind), parts), body);
}

void Eagle3Head::take_features(uint64_t step, const Eagle3Rows& rows) {
  const WorkScope work(rank_, WorkKind::draft);
  const Taps taps = target_.taps();
  const int32_t num_rows = taps.num_rows, cols = spec_.target_hidden_size;
  PACELINE_CHECK(num_rows <= options_.max_num_rows, "{} rows, room for {}", num_rows, options_.max_num_rows);
  if (num_rows == 0) return;
  MatView x = tapped_.row_range(0, num_rows);
  for (size_t i = 0; i < spec_.taps.size(); ++i) {
    const MatView from = taps.tap(options_.tap_index[i]), to = x.col_range(int32_t(i) * cols, cols);
    if (spec_.fc_norm)
      norm(from, vectors_.input_norm + i * size_t(cols), to);
    else
      backend_.gather_rows({.from = from, .row = std::span(every_row_).first(size_t(num_rows)), .to = to});
  }
  if (spec_.norm_before_fc) {
    norm(x, vectors_.input_norm, normed_taps_.row_range(0, num_rows));
    x = normed_taps_.row_range(0, num_rows);
  }
  const MatView features = features_.row_range(options_.feature_of(step, 0), num_rows);
  backend_.gemm({.x = x, .w = weights_.fc.get(), .y = features});
  if (rows.size() == 0) return;
  backend_.gather_rows({.from = features, .row = rows.feature, .to = feature_.row_range(0, rows.size())});
  run_layer(rows);
}

void Eagle3Head::keep(std::span<const int32_t> from, std::span<const int32_t> to) {
  const WorkScope work(rank_, WorkKind::draft);
  backend_.gather_rows({.from = features_, .row = from, .to = features_, .to_row = to});
}

void Eagle3Head::extend(const Eagle3Rows& rows, std::span<const int32_t> last_row, std::span<const int32_t> seq_slot) {
  const WorkScope work(rank_, WorkKind::draft);
  run(0, rows, [&] {
    backend_.gather_rows({.from = features_, .row = rows.feature, .to = feature_.row_range(0, rows.size())});
    backend_.gather_rows({.from = run_layer(rows), .row = last_row, .to = kept_, .to_row = seq_slot});
  });
}

// r = f + attention(norm(embedding) | norm(f)); r + mlp(norm(r)). The embedding comes first, and positions are those of
// the features.
MatView Eagle3Head::run_layer(const Eagle3Rows& rows) {
  const int32_t count = rows.size(), h = spec_.hidden_size;
  const int32_t q = int32_t(q_cols(spec_)), kv = int32_t(kv_cols(spec_));
  const MatView embedded = embedded_.row_range(0, count), input = input_.row_range(0, count);
  const MatView feature = feature_.row_range(0, count), qkv = qkv_.row_range(0, count);
  const MatView attended = attended_.row_range(0, count), mlp = mlp_.row_range(0, count);
  backend_.embed({.table = weights_.embed.get(), .token = rows.token, .token_cells = cells_, .out = embedded});
  norm(embedded, vectors_.token_norm, input.col_range(0, h));
  norm(feature, vectors_.feature_norm, input.col_range(h, h));
  backend_.gemm({.x = input,
                 .w = weights_.qkv.get(),
                 .bias = vectors_.qkv_bias,
                 .y = qkv,
                 .attention_follows = !spec_.has_head_norms});
  if (spec_.norm_before_residual)
    backend_.gather_rows(
        {.from = input.col_range(h, h), .row = std::span(every_row_).first(size_t(count)), .to = feature});
  if (spec_.has_head_norms) {
    HeadNormArgs heads{.x = qkv.col_range(0, q),
                       .num_heads = spec_.num_heads,
                       .head_dim = spec_.head_dim,
                       .weight = vectors_.q_norm,
                       .eps = spec_.eps};
    backend_.norm_heads(heads);
    heads.x = qkv.col_range(q, kv), heads.num_heads = spec_.num_kv_heads, heads.weight = vectors_.k_norm;
    backend_.norm_heads(heads);
  }
  std::vector<int32_t> kv_len(rows.position.begin(), rows.position.end());
  for (int32_t& len : kv_len) ++len;
  backend_.rope_attention({.x = qkv.col_range(0, q + kv),
                           .num_heads = spec_.num_heads + spec_.num_kv_heads,
                           .head_dim = spec_.head_dim,
                           .rotary_dim = spec_.rope.rotary_dim,
                           .layout = spec_.rope.layout,
                           .inv_freq = inv_freq_,
                           .attention_factor = float(spec_.rope.attention_factor),
                           .position = rows.position},
                          {.k = qkv.col_range(q, kv), .v = qkv.col_range(q + kv, kv), .slot = rows.slot, .kv = kv_},
                          {.q = qkv.col_range(0, q),
                           .out = attended,
                           .num_heads = spec_.num_heads,
                           .scale = 1.0f / std::sqrt(float(spec_.head_dim)),
                           .seqs = rows.seqs,
                           .kv_len = kv_len,
                           .block = rows.block,
                           .paths = {.begin = rows.path_begin, .place = rows.place},
                           .kv = kv_,
                           .reader = weights_.o.get()});
  backend_.gemm({.x = attended, .w = weights_.o.get(), .y = feature, .add = true});
  const MatView normed = normed_.row_range(0, count);
  backend_.norm_gemm({.residual = feature, .weight = vectors_.mlp_norm, .eps = spec_.eps, .out = normed},
                     {.x = normed,
                      .w = weights_.gate_up.get(),
                      .y = mlp,
                      .glu = true,
                      .activation = spec_.activation,
                      .reader = weights_.down.get()});
  backend_.gemm({.x = mlp, .w = weights_.down.get(), .y = feature, .add = true});
  return feature;
}

void Eagle3Head::edit(const LogitEdits& edits) {
  if (edits.empty()) return;
  const LogitEdits by_column = ids_ ? to_columns(edits, spec_.ids) : edits;
  backend_.edit_logits(by_column.args(logits_, spec_.draft_vocab_size));
}

void Eagle3Head::draft(std::span<const int32_t> seq_slot, std::span<const int> num_drafts,
                       std::span<const Eagle3Rows> rows, std::span<const SamplingPlan* const> plan,
                       std::span<int32_t> token) {
  const WorkScope work(rank_, WorkKind::draft);
  const size_t num_seqs = seq_slot.size();
  const MatView all = feature_.row_range(0, int32_t(num_seqs));
  backend_.gather_rows({.from = kept_, .row = seq_slot, .to = all});
  size_t count = num_seqs;
  for (int j = 0; j < num_drafts[0]; ++j) {
    while (num_drafts[count - 1] <= j) --count;
    const MatView feature = feature_.row_range(0, int32_t(count)), normed = normed_.row_range(0, int32_t(count));
    logits_ = all_logits_.row_range(0, int32_t(count));
    if (j > 0) run_layer(rows[size_t(j - 1)]);
    norm(feature, vectors_.last_norm, normed);
    backend_.gemm({.x = normed, .w = weights_.head.get(), .y = logits_});
    if (spec_.norm_output && j + 1 < num_drafts[0])
      backend_.gather_rows({.from = normed, .row = std::span(every_row_).first(count), .to = feature});
    if (!plan.empty()) {
      if (j > 0) await_drafts();
      LogitEdits edits;
      for (size_t i = 0; i < count; ++i) {
        std::vector<int32_t> path;
        for (size_t pass = 0; pass < size_t(j); ++pass) path.push_back(token[pass * num_seqs + i]);
        const bool is_cut = std::find(path.begin(), path.end(), -1) != path.end();  // nobody looks at what follows
        if (plan[i] && !is_cut) plan[i]->add_row(path, int32_t(i), edits);
      }
      edit(edits);
    }
    std::vector<SampleRow> draws(count);
    for (size_t i = 0; i < count; ++i) draws[i] = {.logits_row = int32_t(i), .token_cell = seq_slot[i]};
    backend_.sample({.logits = logits_,
                     .vocab_size = spec_.draft_vocab_size,
                     .rows = draws,
                     .token = token.subspan(size_t(j) * num_seqs, count),
                     .token_cells = cells_,
                     .ids = ids_,
                     .later = true});
  }
}

void Eagle3Head::draft_level(std::span<const int32_t> from, const Eagle3Rows& rows, const LogitEdits& edits, int width,
                             std::span<int32_t> token, std::span<float> prob) {
  const WorkScope work(rank_, WorkKind::draft);
  const int32_t count = int32_t(from.size());
  const MatView feature = feature_.row_range(0, count), normed = normed_.row_range(0, count);
  if (rows.size() == 0) {
    backend_.gather_rows({.from = kept_, .row = from, .to = feature});
  } else {
    const MatView gathered = embedded_.row_range(0, count);  // not yet in use
    backend_.gather_rows({.from = spec_.norm_output ? normed_ : feature_, .row = from, .to = gathered});
    backend_.gather_rows({.from = gathered, .row = std::span(every_row_).first(from.size()), .to = feature});
    run_layer(rows);
  }
  norm(feature, vectors_.last_norm, normed);
  logits_ = all_logits_.row_range(0, count);
  backend_.gemm({.x = normed, .w = weights_.head.get(), .y = logits_});
  edit(edits);
  backend_.top_k(
      {.logits = logits_, .vocab_size = spec_.draft_vocab_size, .k = width, .ids = ids_, .token = token, .prob = prob});
}

void Eagle3Head::await_drafts() { backend_.await_draws(backend_.num_draws()); }

void Eagle3Head::swap_kv(std::span<const BlockSwap> swaps) {
  backend_.swap_blocks(kv_.k, host_k_, half_block_bytes_, swaps);
  backend_.swap_blocks(kv_.v, host_v_, half_block_bytes_, swaps);
}

}  // namespace paceline
