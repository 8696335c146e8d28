#pragma once
// A real model on a team of ranks, fed by hand: pieces of sequences in, logits of every row out.

#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/batch_rows.h"
#include "engine/transformer/transformer.h"
#include "engine/weights/checkpoint.h"
#include "tests/support/paths.h"

namespace paceline::test {

inline std::filesystem::path source_path(const std::string& relative) { return source_dir() / relative; }

struct ModelRigOptions {
  std::string folder;  // absolute, or relative to the project
  int tp = 1;
  int pp = 1;
  int threads = 1;
  int block_size = 16;
  int isa = -1;
  int num_blocks = 96;
  std::optional<DType> dtype;  // of the weights; else the checkpoint's
  std::string device = "cpu";  // or "cuda": rank i on cuda:i
  RankSet ranks = RankSet::all;
  StreamOrder order = StreamOrder::in_order;
  int num_host_blocks = 0;
  std::vector<int> taps{};
  int num_layers = 0;  // the first of them, with the model's final norm and head behind; 0: all
};

inline std::vector<std::string> rank_devices(const ModelRigOptions& options) {
  std::vector<std::string> devices;
  for (int rank = 0; rank < options.tp * options.pp; ++rank)
    devices.push_back(options.device == "cpu" ? "cpu" : fmt::format("{}:{}", options.device, rank));
  return devices;
}

/// Positions [begin, end) of a text whose earlier positions lie in `pages` already, and drafts behind its end.
struct Piece {
  std::vector<int32_t> tokens;
  std::vector<int32_t> pages;
  int begin = 0;
  int end = 0;
  DraftTree drafts{};
};

class ModelRig {
 public:
  explicit ModelRig(const ModelRigOptions& options)
      : ModelRig(options, Checkpoint::open(source_path(options.folder))) {}

  /// The folder's config.json over the tensors of `source`.
  ModelRig(const ModelRigOptions& options, const TensorSource& source)
      : options_(options),
        team_({.placement = {.devices = rank_devices(options), .tp = options.tp, .pp = options.pp},
               .threads_per_rank = options.threads,
               .timeout_s = 60.0,
               .isa = options.isa}),
        spec_(read_spec(options)) {
    const DType dtype = options.dtype.value_or(spec_.checkpoint_dtype);
    weights_ = load_weights(source, spec_, team_, options.ranks, dtype);
    model_ = make_transformer(spec_, weights_, team_,
                              {.dtype = dtype,
                               .num_blocks = options.num_blocks,
                               .num_host_blocks = options.num_host_blocks,
                               .block_size = options.block_size,
                               .max_num_seqs = 8,
                               .max_num_rows = 512,
                               .max_num_logit_rows = 512,
                               .max_model_len = spec_.max_position,
                               .taps = options.taps,
                               .ranks = options.ranks,
                               .order = options.order});
  }

  const ModelSpec& spec() const { return spec_; }
  Model& model() { return *model_; }
  RankTeam& team() { return team_; }
  int block_size() const { return options_.block_size; }
  int num_blocks() const { return options_.num_blocks; }

  /// Pages 0, 1, … for `length` positions, from `first` on.
  std::vector<int32_t> pages(int length, int first = 0) const {
    std::vector<int32_t> ids(size_t((length + options_.block_size - 1) / options_.block_size));
    std::iota(ids.begin(), ids.end(), first);
    return ids;
  }

  /// One batch of pieces, in order; logits of all their rows, [rows * vocab_size]. `last_only`: of the last row of
  /// each.
  std::vector<float> run(const std::vector<Piece>& pieces, bool last_only = false) {
    auto batch = std::make_shared<Batch>();
    batch->step = ++step_;
    for (size_t i = 0; i < pieces.size(); ++i) {
      const Piece& piece = pieces[i];
      const int first = batch->num_rows();
      const size_t num_logit_rows = batch->logit_row.size();
      add_rows(*batch, {.state = {.seq = int32_t(i),
                                  .cached = piece.begin,
                                  .length = int32_t(piece.tokens.size()),
                                  .last_token = piece.tokens.back(),
                                  .request = int64_t(i)},
                        .tokens = piece.tokens,
                        .pages = piece.pages,
                        .block_size = options_.block_size,
                        .end = piece.end,
                        .reset = true,
                        .drafts = piece.drafts.empty() ? nullptr : &piece.drafts});
      batch->logit_row.resize(num_logit_rows);
      for (int row = last_only ? batch->num_rows() - 1 : first; row < batch->num_rows(); ++row)
        batch->logit_row.push_back(row);
    }
    return launch(batch);
  }

  std::vector<float> launch(const std::shared_ptr<Batch>& batch) {
    batch->digest = digest_of(batch->expected);
    model_->launch(batch);
    std::vector<float> logits;
    model_->wait(model_->post([&](Rank& rank) {
      const Logits found = model_->logits();
      logits = download_rows(*rank.backend, found.rows, found.vocab_size);
    }));
    return logits;
  }

  /// Of the batch before: the residual of all its rows, [rows * hidden_size], for each of the options' taps.
  std::vector<std::vector<float>> taps() {
    std::vector<std::vector<float>> found;
    model_->wait(model_->post([&](Rank& rank) {
      for (size_t i = 0; i < options_.taps.size(); ++i)
        found.push_back(download_rows(*rank.backend, model_->taps().tap(int(i)), spec_.hidden_size));
    }));
    return found;
  }

  uint64_t next_step() { return ++step_; }

 private:
  static ModelSpec read_spec(const ModelRigOptions& options) {
    ModelSpec spec = load_model_spec(source_path(options.folder));
    if (options.num_layers > 0) {
      spec.num_layers = options.num_layers;
      spec.layers.resize(size_t(options.num_layers));
    }
    return spec;
  }

  const ModelRigOptions options_;
  RankTeam team_;
  const ModelSpec spec_;
  SharedWeights weights_;
  std::unique_ptr<Model> model_;
  uint64_t step_ = 0;
};

/// First row of `logits` whose bits are not those of row `first` + i of `reference`; -1: all equal.
inline int first_difference(const std::vector<float>& reference, int first, const std::vector<float>& logits,
                            int vocab_size) {
  const int rows = int(logits.size()) / vocab_size;
  for (int row = 0; row < rows; ++row) {
    if (std::memcmp(reference.data() + size_t(first + row) * size_t(vocab_size),
                    logits.data() + size_t(row) * size_t(vocab_size), size_t(vocab_size) * sizeof(float)) != 0)
      return row;
  }
  return -1;
}

inline nlohmann::json read_json(const std::string& relative) {
  std::ifstream in(source_path(relative));
  return nlohmann::json::parse(in);
}

/// A text of the model's vocabulary: part of it repeats, so that attention has something to look at.
inline std::vector<int32_t> sample_text(int length, int vocab_size, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::vector<int32_t> tokens;
  for (int i = 0; i < length; ++i)
    tokens.push_back(i > 20 && random() % 3 == 0 ? tokens[size_t(i - 17)] : int32_t(random() % unsigned(vocab_size)));
  return tokens;
}

}  // namespace paceline::test
