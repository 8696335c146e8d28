// Heads that are not what they seem, or not this target's: one line that names the file, what stands there and what was
// expected.

#include "speculative/eagle3_spec.h"

#include <gtest/gtest.h>

#include "engine/weights/checkpoint.h"
#include "tests/support/eagle3_writer.h"
#include "tests/support/expect_error.h"
#include "tests/support/paths.h"

namespace paceline::test {
namespace {

HeadLayout layout(const char* name) {
  for (HeadLayout& one : head_layouts())
    if (one.name == name) return one;
  ADD_FAILURE() << "no layout " << name;
  return {};
}

void remove_tensor(HeadFiles& files, const std::string& name) {
  std::erase_if(files.tensors, [&](const TestTensor& tensor) { return tensor.name == name; });
}

struct Fault {
  std::string name;
  ExitCode code = ExitCode::usage;
  std::vector<std::string> message;
  std::function<void(HeadFiles&)> plant;
  const char* layout = "specforge";
};

void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.name; }

std::vector<Fault> faults() {
  const auto config = [](const char* pointer, nlohmann::json value) {
    return [pointer, value](HeadFiles& files) { files.config[nlohmann::json::json_pointer(pointer)] = value; };
  };
  const auto without = [](const char* tensor) { return [tensor](HeadFiles& files) { remove_tensor(files, tensor); }; };
  return {
      {"other_width",
       ExitCode::usage,
       {"target_hidden_size", "found 32", "states have 64", "made for it"},
       config("/target_hidden_size", 32)},
      {"other_vocabulary", ExitCode::usage, {"vocab_size", "found 600", "target has 515"}, config("/vocab_size", 600)},
      {"other_depth",
       ExitCode::usage,
       {"eagle_aux_hidden_state_layer_ids", "found layer 30", "has 3 layers"},
       config("/eagle_config/eagle_aux_hidden_state_layer_ids", {1, 2, 30})},
      {"left_layer_beyond",
       ExitCode::usage,
       {"target_layer_ids", "found layer 3", "has 3 layers"},
       config("/target_layer_ids", {0, 1, 3}),
       "deepspec"},
      {"two_layers",
       ExitCode::usage,
       {"num_hidden_layers", "found 2 layers, expected 1"},
       config("/num_hidden_layers", 2)},
      {"unknown_kind",
       ExitCode::usage,
       {"architectures", "\"MedusaModel\"", "LlamaForCausalLMEagle3"},
       config("/architectures", {"MedusaModel"})},
      {"no_inner_states",
       ExitCode::usage,
       {"use_aux_hidden_state", "found false, expected true"},
       config("/eagle_config/use_aux_hidden_state", false)},
      {"missing_fc", ExitCode::model_file, {"no tensor \"fc.weight\"", "shape [64, 192]"}, without("fc.weight")},
      {"fc_of_two_taps",
       ExitCode::model_file,
       {"\"fc.weight\"", "found shape [64, 128]", "expected [64, 192]"},
       [](HeadFiles& files) {
         files.tensor("fc.weight").shape = {64, 128};
         files.tensor("fc.weight").values.resize(64 * 128);
       }},
      {"eagle_1_or_2",
       ExitCode::model_file,
       {"hidden_norm.weight", "EAGLE-1 or EAGLE-2", "expected an EAGLE-3 head"},
       without("midlayer.hidden_norm.weight")},
      {"latent_attention",
       ExitCode::model_file,
       {"latent attention", "q_a_proj", "expected q_proj"},
       [](HeadFiles& files) {
         files.tensor("midlayer.self_attn.q_proj.weight").name = "midlayer.self_attn.q_a_proj.weight";
       }},
      {"a_whole_model",
       ExitCode::model_file,
       {"midlayer.hidden_norm.weight", "expected an EAGLE-3 head"},
       [](HeadFiles& files) {
         std::erase_if(files.tensors, [](const TestTensor& tensor) { return tensor.name.starts_with("midlayer."); });
       }},
      {"reduced_without_its_head",
       ExitCode::model_file,
       {"no tensor \"lm_head.weight\"", "one of 40 rows"},
       without("lm_head.weight")},
      {"reduced_without_ids", ExitCode::model_file, {"no tensor \"d2t\"", "[40]"}, without("d2t")},
      {"ids_that_fall",
       ExitCode::model_file,
       {"tensor \"d2t\"", "row 7", "increasing and below 515"},
       [](HeadFiles& files) { files.tensor("d2t").values[7] = -300.0f; }},
      {"head_of_another_width",
       ExitCode::model_file,
       {"hidden_size 32", "target's 64", "no embed_tokens"},
       [](HeadFiles& files) {
         files.config["hidden_size"] = 32;
         files.config["target_hidden_size"] = 64;
       }},
  };
}

class Eagle3Fault : public testing::TestWithParam<Fault> {};

TEST_P(Eagle3Fault, IsOneLine) {
  const Fault& fault = GetParam();
  const ModelSpec target = load_model_spec(golden_model("llama"));
  HeadFiles files = random_head(target, layout(fault.layout));
  const TempDir folder;
  files.write(folder / "sound");
  EXPECT_NO_THROW(load_eagle3_spec(folder / "sound", Checkpoint::open(folder / "sound"), target));
  fault.plant(files);
  files.write(folder / "head");
  expect_error(fault.code, fault.message,
               [&] { load_eagle3_spec(folder / "head", Checkpoint::open(folder / "head"), target); });
}

INSTANTIATE_TEST_SUITE_P(Heads, Eagle3Fault, testing::ValuesIn(faults()),
                         [](const auto& info) { return info.param.name; });

TEST(Eagle3Ids, AreTokensOrDistances) {
  Eagle3Spec spec;
  spec.vocab_size = 100;
  spec.draft_vocab_size = 4;
  const auto ids = [&](const std::vector<int64_t>& data) { return draft_ids(spec, data, "head"); };
  EXPECT_EQ(ids({0, 0, 3, 3}), (std::vector<int32_t>{0, 1, 5, 6}));
  EXPECT_EQ(ids({3, 20, 50, 98}), (std::vector<int32_t>{3, 20, 50, 98}));  // 98 + 3 is no token
  const auto refused = [&](const std::vector<int64_t>& data, const std::string& row) {
    expect_error(ExitCode::model_file, {"head: tensor \"d2t\"", row, "increasing and below 100"}, [&] { ids(data); });
  };
  refused({5, 98, 97, 99}, "row 2 holds 97");
  refused({5, 98, 100, 99}, "row 2 holds 100");
  refused({5, -1, 3, 4}, "row 1 holds -1");
}

}  // namespace
}  // namespace paceline::test
