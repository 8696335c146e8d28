#include "engine/transformer/transformer.h"

#include <algorithm>
#include <limits>

#include "engine/comm/work_scope.h"
#include "engine/transformer/rank_model.h"

namespace paceline {
namespace {

/// What jobs on the ranks use. Jobs own it too: a lost rank is inside one for longer than the model lives.
struct RankParts {
  RankParts(const ModelSpec& model_spec, SharedWeights model_weights, int num_ranks)
      : spec(model_spec), weights(std::move(model_weights)), ranks(size_t(num_ranks)) {}

  const ModelSpec spec;
  const SharedWeights weights;
  std::vector<std::unique_ptr<RankModel>> ranks;
};

class Transformer final : public Model {
 public:
  Transformer(const ModelSpec& spec, SharedWeights weights, RankTeam& team, const TransformerOptions& options)
      : team_(team),
        options_(options),
        parts_(std::make_shared<RankParts>(spec, std::move(weights), team.num_ranks())) {
    team_.run_on_all([this](Rank& rank) {
      const auto place = model_rank(options_.ranks, team_.options().placement, rank.index);
      if (place)
        parts_->ranks[size_t(rank.index)] =
            std::make_unique<RankModel>(parts_->spec, *(*parts_->weights)[size_t(rank.index)], *place, options_, rank);
    });
  }

  ~Transformer() override {
    try {
      team_.wait_all();  // jobs in flight use the parts; a lost rank keeps them
    } catch (...) {      // the team has failed before and said so; it runs no job any more
    }
  }

  const ModelSpec& spec() const override { return parts_->spec; }
  int max_model_len() const override { return options_.max_model_len; }

  Ticket launch(std::shared_ptr<const Batch> batch) override {
    PACELINE_CHECK(batch->num_rows() <= options_.max_num_rows, "{} rows in a batch, room for {}", batch->num_rows(),
                   options_.max_num_rows);
    if (options_.order == StreamOrder::at_once) {
      team_.run_inline([&](Rank& rank) { parts_->ranks[size_t(rank.index)]->forward(*batch); });
      return {};
    }
    Ticket ticket;
    for (int rank = 0; rank < team_.num_ranks(); ++rank) {
      const std::shared_ptr<RankModel> model = part(rank);
      if (!model) continue;
      const uint64_t job = team_.post(rank, [model, batch](Rank&) { model->forward(*batch); });
      if (rank == team_.deciding_rank()) ticket.job = job;
    }
    return ticket;
  }

  Ticket post(RankTeam::Job job) override {
    if (options_.order == StreamOrder::in_order) return {team_.post(team_.deciding_rank(), std::move(job))};
    team_.run_inline(job);
    return {};
  }
  void wait(Ticket ticket) override { team_.wait_deciding(ticket.job); }

  CommStats comm_stats() override { return paceline::comm_stats(team_.rank(team_.deciding_rank())); }

  Logits logits() const override { return parts_->ranks[size_t(team_.deciding_rank())]->logits(); }
  Taps taps() const override { return parts_->ranks[size_t(team_.deciding_rank())]->taps(); }
  void use_taps(bool are_used) override {
    for (int rank = 0; rank < team_.num_ranks(); ++rank)
      if (const std::shared_ptr<RankModel> model = part(rank))
        team_.post(rank, [model, are_used](Rank&) { model->use_taps(are_used); });
  }
  SeqState& state() override { return parts_->ranks[size_t(team_.deciding_rank())]->state(); }

  void move_kv(std::span<const SlotMove> moves) override { post_on_all(&RankModel::move_kv, moves); }
  void swap_kv(std::span<const BlockSwap> swaps) override { post_on_all(&RankModel::swap_kv, swaps); }

 private:
  /// Of one rank, with a share in all parts; null where the rank has none.
  std::shared_ptr<RankModel> part(int rank) const {
    RankModel* const model = parts_->ranks[size_t(rank)].get();
    return model ? std::shared_ptr<RankModel>(parts_, model) : nullptr;
  }

  /// (model of the rank->*call)(items), on every rank that has one, in the order of launches.
  template <class Item>
  void post_on_all(void (RankModel::*call)(std::span<const Item>), std::span<const Item> items) {
    if (options_.order == StreamOrder::at_once) {
      team_.run_inline([&](Rank& rank) { (*parts_->ranks[size_t(rank.index)].*call)(items); });
      return;
    }
    auto shared = std::make_shared<std::vector<Item>>(items.begin(), items.end());
    for (int rank = 0; rank < team_.num_ranks(); ++rank) {
      if (const std::shared_ptr<RankModel> model = part(rank))
        team_.post(rank, [model, shared, call](Rank&) { (*model.*call)(*shared); });
    }
  }

  RankTeam& team_;
  const TransformerOptions options_;
  const std::shared_ptr<RankParts> parts_;
};

}  // namespace

std::optional<ModelRank> model_rank(RankSet ranks, const Placement& placement, int rank) {
  const int stage = rank / placement.tp;
  switch (ranks) {
    case RankSet::all:
      return ModelRank{.stage = stage, .num_stages = placement.pp, .shard = rank % placement.tp, .tp = placement.tp};
    case RankSet::last_stage:
      if (stage != placement.pp - 1) return std::nullopt;
      return ModelRank{.shard = rank % placement.tp, .tp = placement.tp};
    case RankSet::deciding:
      if (rank != placement.deciding_rank()) return std::nullopt;
      return ModelRank{};
  }
  return std::nullopt;
}

std::vector<std::pair<int, int>> split_layers(const ModelSpec& spec, int num_stages) {
  const int64_t q_size = int64_t(spec.num_heads) * spec.head_dim;
  const int64_t kv_size = int64_t(spec.num_kv_heads) * spec.head_dim;
  const bool gated = spec.layers.empty() || spec.layer(0).mlp.kind == MlpKind::gated;
  const int64_t mlp = int64_t(spec.hidden_size) * spec.intermediate_size * (gated ? 3 : 2);
  const double layer_cost = double(spec.hidden_size) * double(2 * q_size + 2 * kv_size) + double(mlp);
  const double head_cost = double(spec.embed_cols()) * spec.vocab_size;
  // The last stage gets the count that balances it against the others, which share the rest evenly.
  int best_last = 1;
  double best_time = std::numeric_limits<double>::infinity();
  for (int last = 1; last <= spec.num_layers - (num_stages - 1); ++last) {
    const int others = num_stages - 1;
    const int largest_other = others ? (spec.num_layers - last + others - 1) / others : 0;
    const double time = std::max(largest_other * layer_cost, last * layer_cost + head_cost);
    if (others == 0 ? last == spec.num_layers : time < best_time) {
      best_time = time;
      best_last = last;
    }
  }
  std::vector<std::pair<int, int>> stages;
  int begin = 0;
  for (int stage = 0; stage + 1 < num_stages; ++stage) {
    const int left = spec.num_layers - best_last - begin;
    const int count = (left + num_stages - 2 - stage) / (num_stages - 1 - stage);
    stages.emplace_back(begin, begin + count);
    begin += count;
  }
  stages.emplace_back(begin, spec.num_layers);
  return stages;
}

ShardPlan shard_plan(const ModelSpec& spec, const ModelRank& place, DType dtype) {
  const auto [begin, end] = split_layers(spec, place.num_stages)[size_t(place.stage)];
  return {.tp_rank = place.shard,
          .tp_size = place.tp,
          .layer_begin = begin,
          .layer_end = end,
          .first_stage = place.stage == 0,
          .last_stage = place.stage == place.num_stages - 1,
          .dtype = dtype};
}

SharedWeights load_weights(const TensorSource& source, const ModelSpec& spec, RankTeam& team, RankSet ranks,
                           DType dtype) {
  auto shards = std::make_shared<std::vector<std::unique_ptr<const ShardWeights>>>(size_t(team.num_ranks()));
  team.run_on_all([&](Rank& rank) {
    const auto place = model_rank(ranks, team.options().placement, rank.index);
    if (place)
      (*shards)[size_t(rank.index)] = std::make_unique<const ShardWeights>(
          load_shard(source, spec, shard_plan(spec, *place, dtype), *rank.backend));
  });
  return shards;
}

std::unique_ptr<Model> make_transformer(const ModelSpec& spec, SharedWeights weights, RankTeam& team,
                                        const TransformerOptions& options) {
  PACELINE_CHECK(options.order == StreamOrder::in_order || options.ranks == RankSet::deciding,
                 "at_once needs a model of the deciding rank alone");
  for (size_t i = 0; i < options.taps.size(); ++i)
    PACELINE_CHECK(options.taps[i] >= (i ? options.taps[i - 1] + 1 : 0) && options.taps[i] <= spec.num_layers,
                   "tap {} of {} layers", options.taps[i], spec.num_layers);
  return std::make_unique<Transformer>(spec, std::move(weights), team, options);
}

size_t kv_block_bytes_on(const ModelSpec& spec, const ModelRank& place, int block_size, DType kv_dtype) {
  const ShardPlan plan = shard_plan(spec, place, kv_dtype);
  const size_t kv_heads = size_t(shard_shape(spec, plan).num_kv_heads);
  return size_t(plan.layer_end - plan.layer_begin) * 2 * size_t(block_size) * kv_heads * size_t(spec.head_dim) *
         dtype_bytes(kv_dtype);
}

int delta_vectors(const ModelSpec& spec, int tp) {
  if (spec.any_layer([](const LayerSpec& layer) { return layer.norms == NormPlace::around; })) return 2;
  if (tp > 1 && spec.any_layer([](const LayerSpec& layer) { return layer.block == BlockLayout::parallel; })) return 2;
  return tp > 1 || spec.positions.rows > 0 ? 1 : 0;
}

TapShare tap_share(const ModelSpec& spec, const ModelRank& place, std::span<const int> taps) {
  if (place.shard != 0) return {};
  const auto [begin, end] = split_layers(spec, place.num_stages)[size_t(place.stage)];
  const int beyond = place.stage == place.num_stages - 1 ? end + 1 : end;
  const auto below = [&](int layer) { return int(std::lower_bound(taps.begin(), taps.end(), layer) - taps.begin()); };
  return {.before = below(begin), .count = below(beyond)};
}

size_t workspace_bytes(const ModelSpec& spec, const TransformerOptions& options, const ModelRank& place) {
  const int tp = place.tp;
  const size_t hidden = size_t(spec.hidden_size);
  int kv_heads = 0;
  for (int rank = 0; rank < tp; ++rank)
    kv_heads = std::max(kv_heads, shard_shape(spec, {.tp_rank = rank, .tp_size = tp}).num_kv_heads);
  const size_t heads = size_t(spec.num_heads / tp + 2 * kv_heads) * size_t(spec.head_dim);
  const size_t embedding = spec.projects_embedding() ? size_t(spec.embed_cols()) : 0;
  const size_t num_taps = size_t(tap_share(spec, place, options.taps).count);
  const size_t per_row = (2 + size_t(delta_vectors(spec, tp)) + num_taps) * hidden + embedding + heads +
                         size_t(spec.num_heads / tp) * size_t(spec.head_dim) + size_t(spec.intermediate_size / tp);
  const size_t vocab = size_t((spec.vocab_size + tp - 1) / tp);
  const size_t per_logit_row = hidden + embedding + vocab + (tp > 1 ? vocab * size_t(tp) : 0);
  return sizeof(float) * (per_row * size_t(options.max_num_rows) + per_logit_row * size_t(options.max_num_logit_rows));
}

int64_t widest_row(const ModelSpec& spec, int tp) {
  return std::max(
      {spec.hidden_size, spec.embed_cols(), spec.num_heads / tp * spec.head_dim, spec.intermediate_size / tp});
}

size_t comm_bytes(const ModelSpec& spec, const ModelRank& place, int64_t rows, int64_t logit_rows,
                  std::span<const int> taps) {
  const auto [begin, end] = split_layers(spec, place.num_stages)[size_t(place.stage)];
  const bool last_stage = place.stage == place.num_stages - 1;
  // of hidden_size; to the next stage
  int64_t vectors = last_stage ? 0 : rows * (1 + tap_share(spec, place, taps).count);
  int64_t logits = 0, embedded = 0;
  if (place.tp > 1) {
    if (place.stage == 0) embedded = rows * spec.embed_cols();
    vectors += 2 * rows * (end - begin);
    if (last_stage) {
      const bool keeps_rows = !taps.empty() && taps.back() == spec.num_layers;
      if (!keeps_rows) vectors -= 2 * (rows - logit_rows);  // behind the last attention: nobody wants their logits
      logits = logit_rows * ((spec.vocab_size + place.tp - 1) / place.tp);
    }
  }
  return sizeof(float) * size_t(vectors * spec.hidden_size + embedded + logits);
}

}  // namespace paceline
