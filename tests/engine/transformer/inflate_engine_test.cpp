// The engine over an inflated model: the parent's greedy text, and the same logits from the rule and from its folder.

#include "engine/engine.h"
#include "engine/model/inflated_checkpoint.h"
#include "engine/model/save_checkpoint.h"
#include "model_rig.h"
#include "speculative/chain_verifier.h"
#include "tests/support/checkpoint_writer.h"
#include "tests/support/shape_file.h"

namespace paceline {
namespace {

using test::ModelRig;
using test::ModelRigOptions;
using test::read_json;

std::vector<int32_t> greedy(ModelRig& rig, const std::vector<int32_t>& prompt, int count) {
  Engine engine(
      {.scheduler = {.max_num_seqs = 1, .max_num_batched_tokens = 512, .max_model_len = rig.spec().max_position},
       .pool = {.num_blocks = rig.num_blocks(), .block_size = rig.block_size()}},
      rig.model(), nullptr, std::make_unique<ChainVerifier>(VerifierOptions{}));
  SamplingParams params;
  params.max_tokens = count;
  params.ignore_eos = true;
  engine.submit(prompt, params);
  std::vector<int32_t> text;
  while (!engine.idle()) {
    for (const Emitted& emitted : engine.step()) text.insert(text.end(), emitted.token.begin(), emitted.token.end());
  }
  return text;
}

/// A folder with `parent` inflated; a checkpoint of its own from then on.
class InflatedFolder {
 public:
  InflatedFolder(const std::string& parent, const nlohmann::json& shape)
      : model_(inflate_model(test::source_path(parent), test::shape_of(shape))),
        source_(Checkpoint::open(test::source_path(parent)), model_) {
    save_checkpoint(source_, folder(), {.config = model_.config, .card = {}, .copies = {}});
  }
  std::string folder() const { return (dir_.path() / "big").string(); }
  const InflatedModel& model() const { return model_; }
  const InflatedCheckpoint& source() const { return source_; }

 private:
  test::TempDir dir_;
  InflatedModel model_;
  InflatedCheckpoint source_;
};

TEST(InflateEngine, GreedyTextIsTheParentsInFloat32) {
  const InflatedFolder inflated("configs/models/target-7m", {{"hidden_size", 1024},
                                                             {"num_hidden_layers", 8},
                                                             {"num_attention_heads", 16},
                                                             {"num_key_value_heads", 8},
                                                             {"head_dim", 128},
                                                             {"intermediate_size", 1024},
                                                             {"vocab_size", 8320}});
  const nlohmann::json golden = read_json("tests/data/models_golden.json").at("target-7m");
  ModelRig rig({.folder = inflated.folder(), .threads = 2, .dtype = DType::f32});
  for (const auto& entry : golden["cases"]) {
    const auto text = entry["greedy"].get<std::vector<int32_t>>();
    EXPECT_EQ(greedy(rig, entry["prompt_ids"].get<std::vector<int32_t>>(), int(text.size())), text);
  }
}

TEST(InflateEngine, RanksThatMakeTheirOwnPartsGiveTheFoldersLogits) {
  const InflatedFolder inflated("tests/data/llama-gqa-tied", {{"tie_word_embeddings", true}, {"vocab_size", 601}});
  const std::vector<int32_t> text = test::sample_text(40, inflated.model().parent.vocab_size);
  ModelRig from_folder({.folder = inflated.folder()});
  const std::vector<float> want = from_folder.run({{text, from_folder.pages(40), 0, 40}});
  for (const auto& [tp, pp] : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 2}}) {
    ModelRig made({.folder = inflated.folder(), .tp = tp, .pp = pp}, inflated.source());
    const std::vector<float> found = made.run({{text, made.pages(40), 0, 40}});
    ASSERT_EQ(found.size(), want.size());
    EXPECT_EQ(test::first_difference(want, 0, found, inflated.model().spec.vocab_size), -1)
        << "tp " << tp << " pp " << pp;
  }
}

}  // namespace
}  // namespace paceline
