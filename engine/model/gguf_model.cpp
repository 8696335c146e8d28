#include "engine/model/gguf_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <optional>
#include <span>
#include <vector>

#include "engine/model/families.h"
#include "engine/model/family_parts.h"
#include "engine/model/gguf_family.h"

namespace paceline {
namespace {

using nlohmann::json;

/// A family, and what its files look like.
struct Match {
  const Family& family;
  const GgufFamily& gguf;
};

/// "llama, qwen2, …"
std::string supported_gguf_architectures() {
  std::vector<std::string_view> names;
  for (const Family& family : families())
    if (family.gguf && std::find(names.begin(), names.end(), family.gguf->architecture) == names.end())
      names.push_back(family.gguf->architecture);
  return fmt::format("{}", fmt::join(names, ", "));
}

Match match_of(const GgufFile& file) {
  const std::string source = file.path().string(), supported = supported_gguf_architectures();
  const GgufValue* const value = file.find("general.architecture");
  if (!value) fail(ExitCode::model_file, "{}: general.architecture is missing; expected one of {}", source, supported);
  const auto names = value->strings();
  for (const Family& family : families())
    if (family.gguf && names.size() == 1 && family.gguf->architecture == names[0]) return {family, *family.gguf};
  fail(ExitCode::model_file, "{}: general.architecture {} is not supported; supported: {}", source, value->text(),
       supported);
}

const GgufTensor& embedding_of(const GgufFile& file) {
  const GgufTensor* const embed = file.find_tensor("token_embd.weight");
  if (!embed || embed->shape.size() != 2)
    fail(ExitCode::model_file, "{}: tensor \"token_embd.weight\" is {}; expected a matrix of tokens",
         file.path().string(), embed ? "none" : "missing");
  return *embed;
}

/// Values of a small vector; empty where there is none.
std::vector<float> float_tensor(const GgufFile& file, std::string_view name) {
  const GgufTensor* const tensor = file.find_tensor(name);
  if (!tensor) return {};
  if (tensor->shape.size() != 1 || tensor->type->number != uint32_t(GgufType::f32))
    fail(ExitCode::model_file, "{}: tensor {} is {} of [{}]; expected a vector of F32", file.path().string(), name,
         tensor->type->name, fmt::join(tensor->shape, ", "));
  std::vector<float> values(tensor->bytes / sizeof(float));
  std::memcpy(values.data(), file.data(*tensor), tensor->bytes);
  for (const float value : values)
    if (!(value > 0.0f && std::isfinite(value)))
      fail(ExitCode::model_file, "{}: tensor {} holds {}; expected numbers above 0", file.path().string(), name, value);
  return values;
}

// --- positions ----------------------------------------------------------------------------------------------------

/// Llama 3's rope scaling, if the factors that each frequency is divided by are that: converters write the factors
/// alone. All its checkpoints share low 1 and high 4; the original positions follow from a frequency between the two.
std::optional<json> as_llama3(std::span<const float> factors, double theta) {
  constexpr double kLow = 1, kHigh = 4, kTolerance = 1e-4;
  const double factor = factors.back();
  if (!(factor > 1)) return std::nullopt;
  const auto inv_freq = [&](size_t i) { return std::pow(theta, -double(i) / double(factors.size())); };
  double original = 0;
  for (size_t i = 0; i < factors.size(); ++i) {
    const double kept = (1 / double(factors[i]) - 1 / factor) / (1 - 1 / factor);  // 1: as it was, 0: divided by factor
    if (kept > 0.99) {  // until one between is found, a power of two does
      original = std::exp2(std::ceil(std::log2(kHigh * 2 * std::numbers::pi / inv_freq(i))));
    } else if (kept > 0.01) {
      original = std::round((kept * (kHigh - kLow) + kLow) * 2 * std::numbers::pi / inv_freq(i));
      break;
    }
  }
  for (size_t i = 0; i < factors.size(); ++i) {
    const double turns = original * inv_freq(i) / (2 * std::numbers::pi);
    const double kept = std::clamp((turns - kLow) / (kHigh - kLow), 0.0, 1.0);
    const double expected = 1 / ((1 - kept) / factor + kept);
    if (std::abs(factors[i] - expected) > kTolerance * expected) return std::nullopt;
  }
  if (!(original >= 1 && original <= std::numeric_limits<int32_t>::max())) return std::nullopt;
  return json{{"rope_type", "llama3"},
              {"factor", factor},
              {"low_freq_factor", kLow},
              {"high_freq_factor", kHigh},
              {"original_max_position_embeddings", int64_t(original)}};
}

json longrope(const std::vector<float>& short_factors, const std::vector<float>& long_factors) {
  return {{"rope_type", "longrope"}, {"short_factor", short_factors}, {"long_factor", long_factors}};
}

/// What files may say of YaRN beside its factor. number(key): null where it is absent; refuse(key) throws.
template <class Number, class Refuse>
void add_yarn(const Number& number, const Refuse& refuse, json& scaling) {
  for (const char* const key : {"beta_fast", "beta_slow"})
    if (const json value = number(fmt::format("scaling.yarn_{}", key).c_str(), GgufKey::Kind::real); !value.is_null())
      scaling[key] = value;
  struct Neutral {
    const char* key;
    double value;
  };
  for (const Neutral& other : {Neutral{"ext_factor", 1.0}, {"attn_factor", 1.0}, {"log_multiplier", 0.0}}) {
    const std::string key = fmt::format("scaling.yarn_{}", other.key);
    const json value = number(key.c_str(), GgufKey::Kind::real);
    if (!value.is_null() && value != other.value && !(value < 0)) refuse("rope." + key);  // below 0: not said
  }
}

void add_rope_scaling(const GgufFile& file, const std::string& architecture, json& config) {
  const auto number = [&](const char* key, GgufKey::Kind kind) {
    return gguf_number(file, architecture + ".rope." + key, kind);
  };
  const json factor = number("scaling.factor", GgufKey::Kind::real);
  const json original = number("scaling.original_context_length", GgufKey::Kind::integer);
  const json attention = number("scaling.attn_factor", GgufKey::Kind::real);
  std::string type = factor.is_null() ? "none" : "linear";  // of files that do not say
  if (const GgufValue* const value = file.find(architecture + ".rope.scaling.type"))
    type = value->strings().empty() ? value->text() : std::string(value->strings()[0]);
  const auto refuse = [&](std::string_view what) {
    fail(ExitCode::model_file, "{}: {} beside {}.rope.scaling.type {} is not supported", file.path().string(), what,
         architecture, type);
  };
  const bool scales = type != "none" && !factor.is_null() && factor != 1.0;
  json scaling;
  if (const std::vector<float> all = float_tensor(file, "rope_freqs.weight"); !all.empty()) {
    if (scales) refuse("rope_freqs.weight");
    if (std::all_of(all.begin(), all.end(), [](float each) { return each == 1.0f; })) return;
    const auto llama3 = as_llama3(all, config.value("rope_theta", 10000.0));
    scaling = llama3 ? *llama3 : longrope(all, all);
    if (!llama3) scaling["attention_factor"] = 1.0;
  } else if (const std::vector<float> far = float_tensor(file, "rope_factors_long.weight"); !far.empty()) {
    const std::vector<float> near = float_tensor(file, "rope_factors_short.weight");
    scaling = longrope(near.empty() ? far : near, far);
  } else if (type != "none") {
    scaling = {{"rope_type", type}};
    if (!factor.is_null()) scaling["factor"] = factor;
  } else if (const json old = number("scale_linear", GgufKey::Kind::real); !old.is_null() && old != 1.0) {
    scaling = {{"rope_type", "linear"}, {"factor", old}};
  }
  const bool has_magnitude = !attention.is_null() && attention != 1.0;
  if (has_magnitude && (scaling.is_null() || (scaling["rope_type"] != "yarn" && scaling["rope_type"] != "longrope")))
    refuse("rope.scaling.attn_factor");
  if (scaling.is_null()) return;
  if (!original.is_null() && !scaling.contains("original_max_position_embeddings") && scaling["rope_type"] != "linear")
    scaling["original_max_position_embeddings"] = original;
  // llama.cpp multiplies YaRN's own by it
  const double usual = scaling["rope_type"] == "yarn" && scales ? yarn_attention_factor(factor.get<double>()) : 1;
  if (!attention.is_null()) scaling["attention_factor"] = attention.get<double>() * usual;
  if (scaling["rope_type"] == "yarn") add_yarn(number, refuse, scaling);
  config["rope_scaling"] = scaling;
}

/// REQUIRES the sizes that all families require.
void add_partial_rotary(const GgufFile& file, const std::string& architecture, json& config) {
  const auto number = [&](const char* key) {
    return gguf_number(file, architecture + "." + key, GgufKey::Kind::integer);
  };
  const json rotary = number("rope.dimension_count"), key_length = number("attention.key_length");
  const int64_t heads = number("attention.head_count"), hidden = number("embedding_length");
  const int64_t head_dim = !key_length.is_null() ? key_length.get<int64_t>() : heads > 0 ? hidden / heads : 0;
  if (rotary.is_null() || head_dim <= 0 || rotary == head_dim) return;
  config["partial_rotary_factor"] = double(rotary.get<int64_t>()) / double(head_dim);
}

void add_token_ids(const GgufFile& file, json& config) {
  const auto id = [&](const char* name) {
    return gguf_number(file, fmt::format("tokenizer.ggml.{}_token_id", name), GgufKey::Kind::integer);
  };
  json ends = json::array();
  for (const char* name : {"eos", "eot", "eom"})
    if (const json end = id(name); !end.is_null() && std::find(ends.begin(), ends.end(), end) == ends.end())
      ends.push_back(end);
  if (!ends.empty()) config["eos_token_id"] = ends.size() == 1 ? ends[0] : ends;
  if (const json bos = id("bos"); !bos.is_null()) config["bos_token_id"] = bos;
  if (const json pad = id("padding"); !pad.is_null()) config["pad_token_id"] = pad;
}

}  // namespace

json gguf_config(const GgufFile& file) {
  const auto& [family, gguf] = match_of(file);
  const std::string architecture(gguf.architecture), source = file.path().string();
  if (const json experts = gguf_number(file, architecture + ".expert_count", GgufKey::Kind::integer);
      !experts.is_null() && experts != 0)
    fail(ExitCode::model_file, "{}: {}.expert_count is {}; models with experts are not supported", source, architecture,
         experts.dump());
  if (const GgufValue* const causal = file.find(architecture + ".attention.causal"); causal && !causal->is_true())
    fail(ExitCode::model_file, "{}: {}.attention.causal is {}; attention to later tokens is not supported", source,
         architecture, causal->text());
  json config = {{"architectures", {std::string(family.architecture)}},
                 {"model_type", std::string(gguf.model_type)},
                 {"torch_dtype", "bfloat16"},
                 {"vocab_size", embedding_of(file).shape[0]},
                 {"tie_word_embeddings", !file.find_tensor("output.weight")}};
  for (const GgufKey& key : gguf.keys) {
    const std::string name = architecture + "." + std::string(key.gguf);
    const json value = gguf_number(file, name, key.kind);
    if (!value.is_null())
      config[std::string(key.config)] = value;
    else if (key.need == GgufKey::Need::required)
      fail(ExitCode::model_file, "{}: {} is missing; expected {}", source, name,
           key.kind == GgufKey::Kind::integer ? "an integer" : "a number");
  }
  add_partial_rotary(file, architecture, config);
  add_rope_scaling(file, architecture, config);
  add_token_ids(file, config);
  gguf.complete(file, config);
  return config;
}

ModelSpec gguf_spec(const GgufFile& file) {
  ModelSpec spec = parse_model_spec(gguf_config(file), file.path().string());
  spec.table = &match_of(file).gguf.table(spec);
  return spec;
}

}  // namespace paceline
