// Heads in every layout that files have, against the paper's formulas in float64 (Li et al. 2025, section 3): the whole
// text computed anew for each draft, straight from the files' tensors.

#include <random>

#include <gtest/gtest.h>

#include "engine/weights/made/inflated_checkpoint.h"
#include "engine/weights/save_checkpoint.h"
#include "speculative/eagle3_inflate.h"
#include "speculative/selftest/fresh_drafts.h"
#include "speculative/tree_growth.h"
#include "tests/support/eagle3_writer.h"
#include "tests/support/expect_error.h"
#include "tests/support/paths.h"
#include "tests/support/reference_model.h"
#include "tests/support/shape_file.h"

namespace paceline::test {
namespace {

constexpr int kHeads = 4, kKvHeads = 2, kHeadDim = 16;  // of random_head
constexpr double kEps = 1e-5, kTheta = 10000.0;

/// What the flags of a layout mean, read from the layout and not from the files.
class ReferenceHead {
 public:
  ReferenceHead(HeadFiles files, const HeadLayout& layout, const ReferenceModel& target, const TensorSource& source,
                const ModelSpec& spec)
      : files_(std::move(files)), layout_(layout), target_(target) {
    taps_ = {1, spec.num_layers - 1, spec.num_layers};
    const Matrix embed = read_matrix(source, "model.embed_tokens.weight");
    embed_ = layout.own_embedding ? read("embed_tokens.weight") : embed;
    head_ = layout.own_head ? read("lm_head.weight") : spec.tied_head ? embed : read_matrix(source, "lm_head.weight");
    num_tokens_ = spec.vocab_size;
  }

  struct Draft {
    int32_t token = 0;
    Matrix logits;  // [1, draft vocabulary]
  };

  /// What follows `text` and `drafted`: [1, draft vocabulary].
  Matrix logits(const std::vector<int32_t>& text, const std::vector<int32_t>& drafted) {
    Matrix features = features_of(text);
    std::vector<int32_t> tokens(text.begin() + 1, text.end());
    for (size_t j = 0;; ++j) {
      const Matrix last = layer(tokens, features).bottomRows(1);
      const Matrix normed = norm(last, "norm.weight");
      if (j == drafted.size()) return normed * head_.transpose();
      tokens.push_back(drafted[j]);
      features.conservativeResize(features.rows() + 1, Eigen::NoChange);
      features.bottomRows(1) = flag("norm_output") ? normed : last;
    }
  }

  int32_t token_of(long row) const { return int32_t(layout_.draft_vocab_size ? id_of(row) : row); }

  std::vector<Draft> drafts(const std::vector<int32_t>& text, int count) {
    std::vector<Draft> drafts;
    std::vector<int32_t> chain;
    for (int j = 0; j < count; ++j) {
      Draft draft{.token = 0, .logits = logits(text, chain)};
      long best = 0;
      draft.logits.row(0).maxCoeff(&best);
      draft.token = token_of(best);
      chain.push_back(draft.token);
      drafts.push_back(std::move(draft));
    }
    return drafts;
  }

  DraftTree tree(const std::vector<int32_t>& text, const GrowthLimits& limits) {
    TreeGrowth growth(limits);
    std::vector<int32_t> level = {DraftTree::kRoot};
    while (!level.empty()) {
      for (const int32_t node : level) {
        std::vector<int32_t> path;
        for (int32_t above = node; above != DraftTree::kRoot; above = growth.parent(above))
          path.insert(path.begin(), growth.token(above));
        const Matrix of_node = logits(text, path);
        const Eigen::VectorXd weight = (of_node.row(0).array() - of_node.maxCoeff()).exp();
        std::vector<long> order(size_t(weight.size()));
        std::iota(order.begin(), order.end(), 0);
        std::sort(order.begin(), order.end(), [&](long a, long b) { return weight[a] > weight[b]; });
        std::vector<int32_t> token;
        std::vector<float> prob;
        for (int i = 0; i < limits.width; ++i) {
          token.push_back(token_of(order[size_t(i)]));
          prob.push_back(float(weight[order[size_t(i)]] / weight.sum()));
        }
        growth.add_children(node, token, prob);
      }
      const std::span<const int32_t> next = growth.next_level();
      level.assign(next.begin(), next.end());
    }
    return growth.tree();
  }

 private:
  bool flag(const char* name) const {
    return layout_.flags.value(name, false) ||
           layout_.flags.value("eagle_config", nlohmann::json::object()).value(name, false);
  }

  /// random_head's list: every (vocabulary / rows)-th token.
  long id_of(long row) const {
    const long step = num_tokens_ / layout_.draft_vocab_size;
    return row * step + step - 1;
  }

  Matrix read(const std::string& name) {
    const TestTensor& tensor = files_.tensor(layout_.prefix + name);
    const long cols = long(tensor.shape.back()), rows = long(tensor.values.size()) / cols;
    return Eigen::Map<const Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>(tensor.values.data(),
                                                                                                   rows, cols)
        .cast<double>();
  }

  Matrix norm(const Matrix& rows, const std::string& name) {
    const Matrix weight = read(name);
    Matrix out(rows.rows(), rows.cols());
    for (long i = 0; i < rows.rows(); ++i)
      out.row(i) = rows.row(i).cwiseProduct(weight) / std::sqrt(rows.row(i).squaredNorm() / double(rows.cols()) + kEps);
    return out;
  }

  /// All positions but the last, whose states nobody has yet.
  Matrix features_of(const std::vector<int32_t>& text) {
    const std::vector<int32_t> known(text.begin(), text.end() - 1);
    Matrix side_by_side(long(known.size()), 0);
    for (size_t i = 0; i < taps_.size(); ++i) {
      Matrix tap = target_.residual(known, taps_[i]);
      if (flag("fc_norm")) tap = norm(tap, "fc_norm." + std::to_string(i) + ".weight");
      Matrix wider(tap.rows(), side_by_side.cols() + tap.cols());
      wider << side_by_side, tap;
      side_by_side = wider;
    }
    if (flag("norm_before_fc")) side_by_side = norm(side_by_side, "input_norm.weight");
    return side_by_side * read("fc.weight").transpose();
  }

  Matrix attention_in(const Matrix& x, const char* part) {
    const std::string name = layout_.layer + "self_attn." + part;
    Matrix out = x * read(name + ".weight").transpose();
    if (layout_.attention_bias) out.rowwise() += read(name + ".bias").row(0);
    return out;
  }

  Matrix heads_normed(Matrix x, int num_heads, const char* part) {
    if (!layout_.head_norms) return x;
    for (int head = 0; head < num_heads; ++head)
      x.middleCols(head * kHeadDim, kHeadDim) =
          norm(x.middleCols(head * kHeadDim, kHeadDim), layout_.layer + "self_attn." + part + ".weight");
    return x;
  }

  static Matrix rotated(Matrix x, int num_heads) {
    for (long position = 0; position < x.rows(); ++position) {
      for (int head = 0; head < num_heads; ++head) {
        for (int pair = 0; pair < kHeadDim / 2; ++pair) {
          const double angle = double(position) * std::pow(kTheta, -2.0 * pair / kHeadDim);
          double& a = x(position, head * kHeadDim + pair);
          double& b = x(position, head * kHeadDim + pair + kHeadDim / 2);
          const double was_a = a, was_b = b;
          a = was_a * std::cos(angle) - was_b * std::sin(angle);
          b = was_b * std::cos(angle) + was_a * std::sin(angle);
        }
      }
    }
    return x;
  }

  Matrix layer(const std::vector<int32_t>& tokens, const Matrix& features) {
    Matrix embedded(long(tokens.size()), embed_.cols());
    for (size_t i = 0; i < tokens.size(); ++i) embedded.row(long(i)) = embed_.row(tokens[i]);
    const Matrix normed_feature = norm(features, layout_.layer + "hidden_norm.weight");
    Matrix x(features.rows(), embedded.cols() + features.cols());
    x << norm(embedded, layout_.layer + "input_layernorm.weight"), normed_feature;
    const Matrix q = rotated(heads_normed(attention_in(x, "q_proj"), kHeads, "q_norm"), kHeads);
    const Matrix k = rotated(heads_normed(attention_in(x, "k_proj"), kKvHeads, "k_norm"), kKvHeads);
    const Matrix v = attention_in(x, "v_proj");
    Matrix attended(q.rows(), q.cols());
    for (int head = 0; head < kHeads; ++head) {
      const long kv = head / (kHeads / kKvHeads) * kHeadDim;
      for (long row = 0; row < q.rows(); ++row) {
        Eigen::VectorXd score = k.middleCols(kv, kHeadDim).topRows(row + 1) *
                                q.row(row).segment(head * kHeadDim, kHeadDim).transpose() / std::sqrt(double(kHeadDim));
        score = (score.array() - score.maxCoeff()).exp();
        attended.row(row).segment(head * kHeadDim, kHeadDim) =
            (score / score.sum()).transpose() * v.middleCols(kv, kHeadDim).topRows(row + 1);
      }
    }
    Matrix residual = flag("norm_before_residual") ? normed_feature : features;
    residual += attended * read(layout_.layer + "self_attn.o_proj.weight").transpose();
    const Matrix mlp_in = norm(residual, layout_.layer + "post_attention_layernorm.weight");
    Matrix gate = mlp_in * read(layout_.layer + "mlp.gate_proj.weight").transpose();
    gate = gate.unaryExpr([](double value) { return value / (1.0 + std::exp(-value)); });
    const Matrix up = mlp_in * read(layout_.layer + "mlp.up_proj.weight").transpose();
    return residual + gate.cwiseProduct(up) * read(layout_.layer + "mlp.down_proj.weight").transpose();
  }

  HeadFiles files_;
  const HeadLayout layout_;
  const ReferenceModel& target_;
  std::vector<int> taps_;
  Matrix embed_, head_;
  long num_tokens_ = 0;
};

class Eagle3Layouts : public testing::TestWithParam<HeadLayout> {};

TEST_P(Eagle3Layouts, DraftsAreThoseOfTheFormulas) {
  constexpr int kDrafts = 4;
  const TempDir folder;
  for (const char* const name : {"llama", "llama-gqa-tied"}) {
    const std::filesystem::path target = golden_model(name);
    const ModelSpec spec = load_model_spec(target);
    const Checkpoint source = Checkpoint::open(target);
    const ReferenceModel reference(source, spec);
    const HeadFiles files = random_head(spec, GetParam());
    files.write(folder / name);
    ReferenceHead head(files, GetParam(), reference, source, spec);
    EngineRig rig({.target = target, .head = folder / name, .dtype = DType::f32, .max_draft_len = 12});
    std::mt19937 random(7);
    for (const int length : {1, 2, 17, 40}) {
      SCOPED_TRACE(fmt::format("{}, {} tokens", name, length));
      std::vector<int32_t> prompt;
      for (int i = 0; i < length; ++i) prompt.push_back(int32_t(random() % unsigned(spec.vocab_size)));
      const MadeDrafts made = fresh_head_drafts(rig, prompt, kDrafts);
      ASSERT_EQ(made.drafts.size(), kDrafts);
      const std::vector<ReferenceHead::Draft> want = head.drafts(made.text, kDrafts);
      for (size_t j = 0; j < kDrafts; ++j) EXPECT_EQ(made.drafts.token[j], want[j].token) << "draft " << j;
      const std::vector<float> logits = rig.head().newest_logits();
      ASSERT_EQ(long(logits.size()), want.back().logits.cols());
      for (size_t i = 0; i < logits.size(); ++i)
        ASSERT_NEAR(logits[i], want.back().logits(0, long(i)), 1e-4) << "logit " << i;

      const MadeDrafts branched = fresh_head_drafts(rig, prompt, 11, {.width = 3, .depth = 4});
      const DraftTree tree = head.tree(branched.text, {.width = 3, .max_nodes = 11, .max_depth = 4, .max_parents = 64});
      EXPECT_EQ(branched.drafts.token, tree.token);
      EXPECT_EQ(branched.drafts.parent, tree.parent);
      ASSERT_EQ(branched.drafts.score.size(), tree.score.size());
      for (size_t i = 0; i < tree.score.size(); ++i) EXPECT_NEAR(branched.drafts.score[i], tree.score[i], 1e-4);
    }
  }
}

// A head that has grown with its target drafts the same, and none of the new tokens.
TEST(Eagle3Inflated, DraftsAreThoseOfTheParent) {
  const std::filesystem::path small = golden_model("llama");
  const TempDir folder;
  random_head(load_model_spec(small), head_layouts().front()).write(folder / "head");
  const InflatedModel model =
      inflate_model(small, shape_of({{"hidden_size", 1024}, {"head_dim", 64}, {"num_attention_heads", 12}}));
  ASSERT_TRUE(model.exact);
  save_checkpoint(InflatedCheckpoint(Checkpoint::open(small), model), folder / "big", {.config = model.config});

  const RigOptions options{.target = small, .head = folder / "head", .dtype = DType::f32, .max_draft_len = 12};
  RigOptions grown = options;
  grown.target = folder / "big";
  grown.parent = small;
  EngineRig before(options), after(grown);
  EXPECT_EQ(after.spec().hidden_size, 1024);
  std::mt19937 random(11);
  for (const int length : {1, 20, 40}) {
    std::vector<int32_t> prompt;
    for (int i = 0; i < length; ++i) prompt.push_back(int32_t(random() % unsigned(before.spec().vocab_size)));
    const MadeDrafts want = fresh_head_drafts(before, prompt, 5);
    const std::vector<float> want_logits = before.head().newest_logits();
    const MadeDrafts found = fresh_head_drafts(after, prompt, 5);
    const std::vector<float> logits = after.head().newest_logits();
    EXPECT_EQ(found.text, want.text);
    EXPECT_EQ(found.drafts.token, want.drafts.token);
    ASSERT_EQ(want_logits.size(), 40u);
    ASSERT_EQ(logits.size(), 125u);
    for (size_t i = 0; i < logits.size(); ++i) {
      if (i < want_logits.size())
        EXPECT_NEAR(logits[i], want_logits[i], 1e-4);
      else
        EXPECT_LT(logits[i], want_logits[0] - 100.0f) << i;
    }
    const MadeDrafts tree = fresh_head_drafts(before, prompt, 11, {.width = 3}),
                     big = fresh_head_drafts(after, prompt, 11, {.width = 3});
    EXPECT_EQ(big.drafts.token, tree.drafts.token);
    EXPECT_EQ(big.drafts.parent, tree.drafts.parent);
  }
}

TEST(Eagle3Inflated, TensorsSayTheirSizes) {
  const std::filesystem::path small = golden_model("llama");
  const ModelSpec parent = load_model_spec(small);
  const InflatedModel model = inflate_model(small, shape_of({{"hidden_size", 1024}}));
  const TempDir folder;
  random_head(parent, head_layouts().front()).write(folder / "head");
  const Eagle3Files head = open_eagle3_head(folder / "head", model.spec, &parent);
  const std::vector<std::string> names = head.tensors->names();
  EXPECT_GT(names.size(), 10u);
  for (const std::string& name : names) {
    const TensorInfo& info = *head.tensors->find(name);
    const TensorPart whole = head.tensors->part(name, whole_range(info));
    EXPECT_EQ(info.dtype, whole.view.dtype) << name;
    EXPECT_EQ(info.bytes, uint64_t(whole.view.rows * whole.view.cols) * dtype_bytes(whole.view.dtype)) << name;
  }
}

TEST(Eagle3Inflated, RefusesWhatItDoesNotKnow) {
  const std::filesystem::path small = golden_model("llama");
  const ModelSpec parent = load_model_spec(small);
  const InflatedModel model = inflate_model(small, shape_of({{"hidden_size", 1024}}));
  for (const HeadLayout& layout : head_layouts()) {
    if (layout.name == "specforge") continue;
    const TempDir folder;
    random_head(parent, layout).write(folder / "head");
    expect_error(ExitCode::usage,
                 {(folder / "head").string(), "does not grow with its target", "engine.target.inflate"},
                 [&] { open_eagle3_head(folder / "head", model.spec, &parent); });
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, Eagle3Layouts, testing::ValuesIn(head_layouts()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace paceline::test
