#include "engine/model/model_shape.h"

#include "engine/model/model_spec_reader.h"
#include "engine/util/json_io.h"

namespace paceline {

ModelShape load_model_shape(const std::filesystem::path& file) {
  const nlohmann::json document = read_model_config(file);
  const ConfigReader reader(document, file.string());
  return {.name = file.stem().string(),
          .source = file.string(),
          .parent = reader.text("parent", ""),
          .exact = reader.boolean("exact", false),
          .spec = parse_model_spec(document, file.string())};
}

}  // namespace paceline
