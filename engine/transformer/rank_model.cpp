#include "engine/transformer/rank_model.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "engine/cache/kv_slot.h"
#include "engine/comm/work_scope.h"
#include "engine/model/rope.h"

namespace paceline {

RankModel::RankModel(const ModelSpec& spec, const ShardWeights& weights, const ModelRank& place,
                     const TransformerOptions& options, Rank& rank)
    : spec_(spec),
      weights_(weights),
      place_(place),
      options_(options),
      rank_(rank),
      backend_(*rank.backend),
      state_(options.max_num_seqs, make_cells()) {
  upload_vectors();
  if (spec.any_layer([](const LayerSpec& layer) { return layer.attention.rope == RopeUse::all; }))
    inv_freq_ = rope_inv_freq(spec.rope, options.max_model_len);
  if (spec.any_layer([](const LayerSpec& layer) { return layer.attention.rope == RopeUse::window; }))
    window_inv_freq_ = rope_inv_freq(spec.window_rope, options.max_model_len);
  const auto make = [&](int64_t rows, int64_t cols) {
    void* data = backend_.alloc(size_t(rows) * size_t(cols) * sizeof(float));
    allocations_.push_back(data);
    return f32_view(static_cast<float*>(data), int32_t(rows), int32_t(cols));
  };
  const int rows = options.max_num_rows;
  const int head_dim = spec.head_dim;
  residual_ = make(rows, spec.hidden_size);
  normed_ = make(rows, spec.hidden_size);
  qkv_ = make(rows, int64_t(weights.num_heads + 2 * weights.num_kv_heads) * head_dim);
  attended_ = make(rows, int64_t(weights.num_heads) * head_dim);
  if (const int vectors = delta_vectors(spec, place.tp); vectors > 0)
    delta_ = make(rows, int64_t{vectors} * spec.hidden_size);
  if (spec.projects_embedding()) embedded_ = make(rows, spec.embed_cols());
  mlp_ = make(rows, weights.intermediate);
  tap_share_ = tap_share(spec, place, options.taps);
  if (tap_share_.count > 0) {
    tapped_ = make(rows * tap_share_.count, spec.hidden_size);
    every_row_.resize(size_t(rows));
    std::iota(every_row_.begin(), every_row_.end(), 0);
  }
  if (last_stage()) {
    compact_residual_ = make(options.max_num_logit_rows, spec.hidden_size);
    if (spec.projects_embedding()) projected_ = make(options.max_num_logit_rows, spec.embed_cols());
    local_logits_ = make(options.max_num_logit_rows, weights.vocab_rows);
    all_logits_ = place.tp == 1 ? local_logits_ : MatView{};
    if (place.tp > 1 && place.shard == 0)
      all_logits_ = make(options.max_num_logit_rows, int64_t(weights.vocab_rows) * place.tp);
  }
  for (int layer = weights.plan.layer_begin; layer < weights.plan.layer_end; ++layer) {
    KvView kv{.dtype = options.kv_dtype,
              .block_size = options.block_size,
              .num_kv_heads = weights.num_kv_heads,
              .k_dim = head_dim,
              .v_dim = head_dim};
    half_block_bytes_ = kv_block_bytes(kv);  // no V yet
    for (void** const pages : {&kv.k, &kv.v}) {
      *pages = backend_.alloc(size_t(options.num_blocks) * half_block_bytes_);
      allocations_.push_back(*pages);
      if (options.num_host_blocks > 0)
        host_kv_.push_back(backend_.alloc_host(size_t(options.num_host_blocks) * half_block_bytes_));
    }
    kv_.push_back(kv);
  }
}

int32_t* RankModel::make_cells() {
  if (everyone().size() > 1) return nullptr;
  allocations_.push_back(backend_.alloc(size_t(options_.max_num_seqs) * sizeof(int32_t)));
  return static_cast<int32_t*>(allocations_.back());
}

RankModel::~RankModel() {
  for (void* data : allocations_) backend_.free(data);
  for (void* data : host_kv_) backend_.free_host(data);
}

void RankModel::upload_vectors() {
  constexpr size_t kAlign = 16;  // floats
  std::vector<float> all;
  std::vector<std::pair<const float**, size_t>> places;
  const auto put = [&](const std::vector<float>& from, const float** to) {
    if (from.empty()) return;
    places.emplace_back(to, all.size());
    all.insert(all.end(), from.begin(), from.end());
    all.resize((all.size() + kAlign - 1) / kAlign * kAlign);
  };
  const std::vector<float> ones(size_t(spec_.norm.has_weight ? 0 : spec_.hidden_size), 1.0f);
  const auto put_norm = [&](const std::vector<float>& weight, const std::vector<float>& bias, Norm* to) {
    put(spec_.norm.has_weight ? weight : ones, &to->weight);
    put(bias, &to->bias);
  };
  layer_vectors_.resize(weights_.layers.size());
  for (size_t i = 0; i < weights_.layers.size(); ++i) {
    const LayerWeights& layer = weights_.layers[i];
    LayerVectors& vectors = layer_vectors_[i];
    put_norm(layer.attn_norm, layer.attn_norm_bias, &vectors.attn_norm);
    if (!spec_.layer(weights_.plan.layer_begin + int(i)).shares_norm)
      put_norm(layer.mlp_norm, layer.mlp_norm_bias, &vectors.mlp_norm);
    if (spec_.layer(weights_.plan.layer_begin + int(i)).norms == NormPlace::around) {
      put_norm(layer.attn_out_norm, layer.attn_out_norm_bias, &vectors.attn_out_norm);
      put_norm(layer.mlp_out_norm, layer.mlp_out_norm_bias, &vectors.mlp_out_norm);
    }
    put(layer.q_norm, &vectors.q_norm);
    put(layer.k_norm, &vectors.k_norm);
    put(layer.qkv_bias, &vectors.qkv_bias);
    put(layer.o_bias, &vectors.o_bias);
    put(layer.gate_up_bias, &vectors.gate_up_bias);
    put(layer.down_bias, &vectors.down_bias);
  }
  if (last_stage() && spec_.has_final_norm) put_norm(weights_.final_norm, weights_.final_norm_bias, &final_norm_);
  if (all.empty()) return;
  auto* const data = static_cast<float*>(backend_.alloc(all.size() * sizeof(float)));
  allocations_.push_back(data);
  backend_.upload(data, all.data(), all.size() * sizeof(float));
  for (const auto& [to, offset] : places) *to = data + offset;
  for (size_t i = 0; i < layer_vectors_.size(); ++i)
    if (spec_.layer(weights_.plan.layer_begin + int(i)).shares_norm)
      layer_vectors_[i].mlp_norm = layer_vectors_[i].attn_norm;
}

Communicator& RankModel::everyone() const {
  switch (options_.ranks) {
    case RankSet::all: return *rank_.world;
    case RankSet::last_stage: return *rank_.shards;
    case RankSet::deciding: return *rank_.alone;
  }
  return *rank_.alone;
}

void RankModel::update_state(const Batch& batch) {
  for (const SeqDecision& decision : batch.decisions) state_.apply(decision);
  for (const SeqCommit& reset : batch.resets) state_.reset(reset, batch.step - 1);
}

void RankModel::check_digest(const Batch& batch) const {
  std::vector<SeqCommit> mine(batch.expected);
  for (SeqCommit& state : mine) {
    const SeqSlot& slot = state_[state.seq];
    state.cached = slot.cached;
    state.length = slot.length;
    state.last_token = slot.token_at(slot.length - 1);
    state.paths = slot.paths;
  }
  if (digest_of(mine) == batch.digest) return;
  for (size_t i = 0; i < mine.size(); ++i) {
    const SeqCommit& have = mine[i];
    const SeqCommit& want = batch.expected[i];
    const auto complain = [&](const char* field, int32_t found, int32_t expected) {
      fail(ExitCode::comm,
           "rank {} disagrees with the deciding rank before step {}: request {} {} is {}, expected {} (length {})",
           rank_.index, batch.step, want.request, field, found, expected, want.length);
    };
    if (have.cached != want.cached) complain("committed length", have.cached, want.cached);
    if (have.length != want.length) complain("token count", have.length, want.length);
    if (have.last_token != want.last_token) complain("next token", have.last_token, want.last_token);
    if (have.paths != want.paths) complain("paths of kept drafts", int32_t(have.paths), int32_t(want.paths));
  }
  fail(ExitCode::comm,
       "rank {}: the digest of step {} differs from that of its own expected state: the message is damaged",
       rank_.index, batch.step);
}

// Deferred rows need what the deciding rank's accept kernel has just written; it travels once, before the step.
void RankModel::share_deferred_state(const Batch& batch) {
  Communicator& comm = everyone();
  if (comm.size() == 1) return;
  bool any = false;
  for (const SeqRows& rows : batch.seqs) any = any || rows.deferred;
  if (!any) return;
  const int root = options_.ranks == RankSet::all ? (num_stages() - 1) * place_.tp : 0;
  std::vector<std::byte> message;
  if (comm.rank() == root) {
    for (const SeqRows& rows : batch.seqs) {
      if (!rows.deferred) continue;
      const auto* bytes = reinterpret_cast<const std::byte*>(&state_[rows.seq]);
      message.insert(message.end(), bytes, bytes + sizeof(SeqSlot));
    }
  }
  comm.broadcast(message, root);
  if (comm.rank() == root) return;
  size_t offset = 0;
  for (const SeqRows& rows : batch.seqs) {
    if (!rows.deferred) continue;
    PACELINE_CHECK(offset + sizeof(SeqSlot) <= message.size(), "state message of {} bytes", message.size());
    std::memcpy(&state_[rows.seq], message.data() + offset, sizeof(SeqSlot));
    offset += sizeof(SeqSlot);
  }
}

RankModel::Rows RankModel::make_rows(const Batch& batch) {
  Rows rows{.token = batch.token,
            .position = batch.position,
            .slot = batch.slot,
            .kv_len = batch.kv_len,
            .position_row = {},
            .seqs = {},
            .paths = {}};
  bool any_deferred = false;
  for (size_t i = 0; i < batch.seqs.size(); ++i) {
    const SeqRows& seq = batch.seqs[i];
    rows.seqs.push_back({.first_row = seq.first_row, .num_rows = seq.num_rows, .block_begin = batch.block_begin[i]});
    any_deferred = any_deferred || seq.deferred;
  }
  rows.paths = paths_.fill(batch, rows.seqs);
  const auto find_positions = [&] {
    if (spec_.positions.rows == 0 || !first_stage()) return;
    position_row_.assign(rows.position.begin(), rows.position.end());
    for (int32_t& row : position_row_)
      if (row >= 0) row += spec_.positions.offset;
    rows.position_row = position_row_;
  };
  if (!any_deferred) {
    find_positions();
    return rows;
  }
  token_ = batch.token;
  position_ = batch.position;
  slot_ = batch.slot;
  kv_len_ = batch.kv_len;
  for (size_t i = 0; i < batch.seqs.size(); ++i) {
    const SeqRows& seq = batch.seqs[i];
    if (!seq.deferred) continue;
    const SeqSlot& state = state_[seq.seq];
    const auto row = size_t(seq.first_row);
    const auto pages = std::span(batch.block).subspan(size_t(batch.block_begin[i]));
    position_[row] = state.length - 1;
    token_[row] = state.token_at(position_[row]);
    kv_len_[row] = state.length;
    slot_[row] = kv_slot(pages, options_.block_size, position_[row]);
  }
  rows.token = token_;
  rows.position = position_;
  rows.slot = slot_;
  rows.kv_len = kv_len_;
  find_positions();
  return rows;
}

void RankModel::forward(const Batch& batch) {
  mark(batch, RankPlace::kNoLayer);
  update_state(batch);
  share_deferred_state(batch);
  check_digest(batch);
  const Rows rows = make_rows(batch);
  const WorkScope work(rank_, options_.work, options_.work == WorkKind::target ? batch.step : 0);
  const MatView residual = residual_.row_range(0, batch.num_rows());
  const MatView embedded = spec_.projects_embedding() ? embedded_.row_range(0, batch.num_rows()) : residual;
  const bool embeds_in_pass = first_stage() && place_.tp == 1;  // else the ranks exchange rows before the layers
  if (!first_stage()) rank_.world->recv(residual, rank_.index - place_.tp);
  if (tap_share_.before > 0) rank_.world->recv(kept_taps(residual.rows, tap_share_.before), rank_.index - place_.tp);
  if (first_stage() && !embeds_in_pass) {
    embed(rows, embedded);
    shards().all_reduce(embedded);
  }
  Stream left;
  const auto pass = [&] {
    if (embeds_in_pass) embed(rows, embedded);
    if (first_stage()) finish_embedding(rows, embedded, residual);
    left = run_layers(batch, rows, residual);
  };
  backend_.run(batch.num_rows() <= kMostRememberedRows ? pass_key(batch) : Backend::kNotRemembered, pass);
  if (!last_stage()) {
    add_pending(left);
    rank_.world->send(left.residual, rank_.index + place_.tp);
    if (tap_share_.count > 0) rank_.world->send(kept_taps(residual.rows, tap_share_.count), rank_.index + place_.tp);
  } else if (!batch.logit_row.empty()) {
    gather_logits(left.residual.rows);
  }
  if (tap_share_.count > 0) taps_ = {.rows = kept_taps(residual.rows, tap_share_.count), .num_rows = residual.rows};
  for (const SeqRows& seq : batch.seqs) {
    if (!seq.wants_logits && seq.seq >= 0) state_.advance(seq.seq, seq.num_rows, batch.step);
  }
}

uint64_t RankModel::pass_key(const Batch& batch) const {
  const size_t with_paths = batch.parent.size() + batch.path_begin.size();
  const size_t parts[] = {batch.seqs.size(), size_t(batch.num_rows()), batch.logit_row.size(), with_paths,
                          size_t(uses_taps_)};
  return Backend::pass_key(reinterpret_cast<uintptr_t>(this), parts);
}

void RankModel::embed(const Rows& rows, MatView out) {
  backend_.embed({.table = weights_.embed.get(),
                  .row_begin = weights_.vocab_begin,
                  .token = rows.token,
                  .token_cells = state_.cells(),
                  .scale = spec_.embed_scale_in(weights_.embed->dtype),
                  .out = out});
}

void RankModel::finish_embedding(const Rows& rows, MatView embedded, MatView residual) {
  if (spec_.projects_embedding()) backend_.gemm({.x = embedded, .w = weights_.project_in.get(), .y = residual});
  if (spec_.positions.rows == 0) return;
  const MatView position = delta_part(0, residual.rows);
  backend_.embed({.table = weights_.positions.get(), .token = rows.position_row, .out = position});
  backend_.norm({.residual = residual, .delta = position});
}

RankModel::Stream RankModel::run_layers(const Batch& batch, const Rows& rows, MatView residual) {
  const size_t num_layers = weights_.layers.size();
  Stream stream{.residual = residual};
  for (size_t i = 0; i < num_layers; ++i) {
    const int index = weights_.plan.layer_begin + int(i);
    mark(batch, index);
    const LayerSpec& spec = spec_.layer(index);
    const LayerWeights& layer = weights_.layers[i];
    const LayerVectors& vectors = layer_vectors_[i];
    const bool drops_rows =
        last_stage() && i + 1 == num_layers && !taps_last_residual() && int(batch.logit_row.size()) < batch.num_rows();
    // Of parallel branches the MLP's products come between attention and the product that reads it, and that one
    // between the MLP and its own.
    const bool is_parallel = spec.block == BlockLayout::parallel;
    MatView attended = attention_block(branch_input(spec, stream, vectors.attn_norm), i, rows, batch,
                                       drops_rows || is_parallel ? nullptr : layer.o.get());
    tap(index, stream.residual);  // to which the norm before attention has added what was pending
    if (drops_rows) {
      keep_logit_rows(batch, stream);
      if (batch.logit_row.empty()) return stream;
      attended = keep_logit_rows(batch, attended);
    }
    if (is_parallel) {
      const MatView hidden = mlp_block(branch_input(spec, stream, vectors.mlp_norm), i, nullptr);
      add_parallel_branches(stream, attended, hidden, i);
      continue;
    }
    const bool around = spec.norms == NormPlace::around;
    add_branch(spec, stream, attended, *layer.o, vectors.o_bias, around ? vectors.attn_out_norm : vectors.attn_norm);
    const MatView hidden = mlp_block(branch_input(spec, stream, vectors.mlp_norm), i, layer.down.get());
    add_branch(spec, stream, hidden, *layer.down, vectors.down_bias, around ? vectors.mlp_out_norm : vectors.mlp_norm);
  }
  if (last_stage()) {
    if (taps_last_residual()) {
      add_pending(stream);
      tap(spec_.num_layers, stream.residual);
      if (int(batch.logit_row.size()) < batch.num_rows()) keep_logit_rows(batch, stream);
    }
    mark(batch, RankPlace::kHead);
    multiply_head(batch, stream);
  }
  return stream;
}

// Nothing after the last attention looks at rows whose logits nobody wants.
void RankModel::keep_logit_rows(const Batch& batch, Stream& stream) {
  add_pending(stream);
  const MatView from = stream.residual;
  stream.residual = from.row_range(0, int32_t(batch.logit_row.size()));
  if (batch.logit_row.empty()) return;
  stream.residual = compact_residual_.row_range(0, stream.residual.rows);
  backend_.gather_rows({.from = from, .row = batch.logit_row, .to = stream.residual});
}

MatView RankModel::keep_logit_rows(const Batch& batch, MatView attended) {
  // q is spent: its buffer holds the kept rows
  const MatView packed = qkv_.row_range(0, int32_t(batch.logit_row.size())).col_range(0, attended.cols);
  backend_.gather_rows({.from = attended, .row = batch.logit_row, .to = packed});
  return packed;
}

void RankModel::tap(int layer, const MatView& residual) {
  const auto found = std::lower_bound(options_.taps.begin(), options_.taps.end(), layer);
  if (tap_share_.count == 0 || found == options_.taps.end() || *found != layer) return;
  const int32_t first_row = int32_t(found - options_.taps.begin()) * residual.rows;
  backend_.gather_rows({.from = residual,
                        .row = std::span(every_row_).first(size_t(residual.rows)),
                        .to = tapped_.row_range(first_row, residual.rows)});
}

NormArgs RankModel::norm_args(const Stream& stream, const Norm& norm) const {
  return {.kind = spec_.norm.kind,
          .residual = stream.residual,
          .delta = stream.pending.delta,
          .delta_bias = stream.pending.bias,
          .sum = stream.pending.sum,
          .weight = norm.weight,
          .bias = norm.bias,
          .eps = spec_.norm.eps,
          .out = other_buffer(stream.residual)};
}

MatView RankModel::other_buffer(const MatView& residual) const {
  return (residual.data == normed_.data ? residual_ : normed_).row_range(0, residual.rows);
}

void RankModel::add_pending(Stream& stream) {
  const Pending& pending = stream.pending;
  if (pending.delta.data)
    backend_.norm(
        {.residual = stream.residual, .delta = pending.delta, .delta_bias = pending.bias, .sum = pending.sum});
  stream.pending = {};
}

RankModel::BranchInput RankModel::branch_input(const LayerSpec& spec, Stream& stream, const Norm& norm) {
  if (spec.norms == NormPlace::after_sum) return {.norm = {}, .x = stream.residual};
  const NormArgs args = norm_args(stream, norm);
  stream.pending = {};  // the norm adds it
  return {.norm = args, .x = args.out};
}

void RankModel::multiply(const BranchInput& input, GemmArgs gemm) {
  gemm.x = input.x;
  input.norm ? backend_.norm_gemm(*input.norm, gemm) : backend_.gemm(gemm);
}

RankModel::Pending RankModel::add_product(MatView x, const PackedWeight& w, const float* bias, MatView residual) {
  if (place_.tp == 1) {
    backend_.gemm({.x = x, .w = &w, .bias = bias, .y = residual, .add = true});
    return {};
  }
  const MatView delta = delta_part(0, residual.rows);
  const PeerSum* const sum = shards().next_sum(delta);
  backend_.gemm({.x = x, .w = &w, .y = delta, .sum = sum});
  if (!sum) shards().all_reduce(delta);
  return {.delta = delta, .bias = bias, .sum = sum};
}

void RankModel::add_branch(const LayerSpec& spec, Stream& stream, MatView x, const PackedWeight& w, const float* bias,
                           const Norm& norm) {
  if (spec.norms == NormPlace::around) {
    const MatView delta = delta_part(0, stream.residual.rows), normed = delta_part(1, stream.residual.rows);
    backend_.gemm({.x = x, .w = &w, .y = delta});
    if (place_.tp > 1) shards().all_reduce(delta);
    NormArgs args = norm_args({.residual = delta}, norm);
    args.out = normed;
    backend_.norm(args);
    stream.pending = {.delta = normed};
    return;
  }
  stream.pending = add_product(x, w, bias, stream.residual);
  if (spec.norms != NormPlace::after_sum) return;
  const NormArgs args = norm_args(stream, norm);
  backend_.norm(args);
  stream = {.residual = args.out};
}

void RankModel::add_parallel_branches(Stream& stream, MatView attended, MatView hidden, size_t layer) {
  const LayerWeights& weights = weights_.layers[layer];
  const LayerVectors& vectors = layer_vectors_[layer];
  if (place_.tp == 1) {
    add_product(attended, *weights.o, vectors.o_bias, stream.residual);
    add_product(hidden, *weights.down, vectors.down_bias, stream.residual);
    return;
  }
  const MatView both = delta_.row_range(0, stream.residual.rows);
  const MatView first = both.col_range(0, spec_.hidden_size),
                second = both.col_range(spec_.hidden_size, spec_.hidden_size);
  backend_.gemm({.x = attended, .w = weights.o.get(), .y = first});
  backend_.gemm({.x = hidden, .w = weights.down.get(), .y = second});
  shards().all_reduce(both);
  stream.pending = {.delta = first, .bias = vectors.o_bias};
  add_pending(stream);
  stream.pending = {.delta = second, .bias = vectors.down_bias};
}

MatView RankModel::attention_block(const BranchInput& input, size_t layer, const Rows& rows, const Batch& batch,
                                   const PackedWeight* reader) {
  const AttentionSpec& spec = spec_.layer(weights_.plan.layer_begin + int(layer)).attention;
  const LayerWeights& weights = weights_.layers[layer];
  const KvView& kv = kv_[layer];
  const int head_dim = spec_.head_dim;
  const int q_cols = weights_.num_heads * head_dim;
  const int kv_cols = weights_.num_kv_heads * head_dim;
  const MatView qkv = qkv_.row_range(0, input.x.rows);
  multiply(input, {.w = weights.qkv.get(),
                   .bias = layer_vectors_[layer].qkv_bias,
                   .y = qkv,
                   .attention_follows = spec.head_norm == HeadNorm::none});
  if (spec.head_norm != HeadNorm::none) norm_heads(spec, layer_vectors_[layer], qkv);
  const MatView attended = attended_.row_range(0, qkv.rows);
  const RopeSpec& rope = spec.rope == RopeUse::window ? spec_.window_rope : spec_.rope;
  backend_.rope_attention(
      {.x = qkv.col_range(0, q_cols + kv_cols),
       .num_heads = weights_.num_heads + weights_.num_kv_heads,
       .head_dim = head_dim,
       .rotary_dim = spec.rope == RopeUse::none ? 0 : rope.rotary_dim,
       .layout = rope.layout,
       .inv_freq = spec.rope == RopeUse::window ? window_inv_freq_ : inv_freq_,
       .attention_factor = float(rope.attention_factor),
       .position = rows.position},
      {.k = qkv.col_range(q_cols, kv_cols), .v = qkv.col_range(q_cols + kv_cols, kv_cols), .slot = rows.slot, .kv = kv},
      {.q = qkv.col_range(0, q_cols),
       .out = attended,
       .num_heads = weights_.num_heads,
       .group = weights_.heads_per_kv,
       .head_offset = weights_.head_offset,
       .scale = spec.scale,
       .softcap = spec.softcap,
       .window = spec.window,
       .seqs = rows.seqs,
       .kv_len = rows.kv_len,
       .block = batch.block,
       .paths = rows.paths,
       .kv = kv,
       .reader = reader});
  return attended;
}

void RankModel::norm_heads(const AttentionSpec& spec, const LayerVectors& vectors, MatView qkv) {
  const int q_cols = weights_.num_heads * spec_.head_dim, k_cols = weights_.num_kv_heads * spec_.head_dim;
  HeadNormArgs args{.kind = spec_.norm.kind,
                    .x = qkv.col_range(0, q_cols),
                    .num_heads = weights_.num_heads,
                    .head_dim = spec_.head_dim,
                    .weight = vectors.q_norm,
                    .weight_per_head = spec.head_norm == HeadNorm::each,
                    .eps = spec_.norm.eps};
  backend_.norm_heads(args);
  args.x = qkv.col_range(q_cols, k_cols);
  args.num_heads = weights_.num_kv_heads;
  args.weight = vectors.k_norm;
  backend_.norm_heads(args);
}

MatView RankModel::mlp_block(const BranchInput& input, size_t layer, const PackedWeight* reader) {
  const MlpSpec& spec = spec_.layer(weights_.plan.layer_begin + int(layer)).mlp;
  const LayerWeights& weights = weights_.layers[layer];
  const MatView hidden = mlp_.row_range(0, input.x.rows);
  const bool gated = spec.kind == MlpKind::gated;
  multiply(input, {.w = weights.gate_up.get(),
                   .bias = layer_vectors_[layer].gate_up_bias,
                   .y = hidden,
                   .glu = gated,
                   .activation = spec.activation,
                   .reader = gated ? reader : nullptr});
  if (!gated) backend_.activation({.x = hidden, .activation = spec.activation});
  return hidden;
}

void RankModel::multiply_head(const Batch& batch, const Stream& stream) {
  const int32_t count = int32_t(batch.logit_row.size());
  if (count == 0) return;
  PACELINE_CHECK(count <= options_.max_num_logit_rows, "{} logit rows, room for {}", count,
                 options_.max_num_logit_rows);
  PACELINE_CHECK(stream.residual.rows == count, "{} rows at the head, {} wanted", stream.residual.rows, count);
  Stream last = stream;
  BranchInput input{.norm = {}, .x = last.residual};
  if (spec_.has_final_norm) {
    const NormArgs args = norm_args(last, final_norm_);
    input = {.norm = args, .x = args.out};
  } else {
    add_pending(last);
  }
  if (spec_.projects_embedding()) {
    const MatView projected = projected_.row_range(0, count);
    multiply(input, {.w = weights_.project_out.get(), .y = projected});
    input = {.norm = {}, .x = projected};
  }
  const MatView logits = local_logits_.row_range(0, count);
  multiply(input, {.w = weights_.head.get(), .y = logits});
  if (spec_.logit_softcap > 0.0f) backend_.softcap({.x = logits, .cap = spec_.logit_softcap});
}

void RankModel::gather_logits(int32_t count) {
  const MatView local = local_logits_.row_range(0, count);
  if (place_.tp > 1) shards().gather_columns(local, all_logits_.data ? all_logits_.row_range(0, count) : MatView{}, 0);
  if (all_logits_.data) logits_ = {.rows = all_logits_.row_range(0, count), .vocab_size = spec_.vocab_size};
}

void RankModel::move_kv(std::span<const SlotMove> moves) {
  for (const KvView& kv : kv_) backend_.move_kv(kv, moves);
}

void RankModel::swap_kv(std::span<const BlockSwap> swaps) {
  for (const BlockSwap& swap : swaps)
    PACELINE_CHECK(swap.host_block < options_.num_host_blocks, "host block {} of {}", swap.host_block,
                   options_.num_host_blocks);
  for (size_t layer = 0; layer < kv_.size(); ++layer) {
    backend_.swap_blocks(kv_[layer].k, host_kv_[2 * layer], half_block_bytes_, swaps);
    backend_.swap_blocks(kv_[layer].v, host_kv_[2 * layer + 1], half_block_bytes_, swaps);
  }
}

}  // namespace paceline
