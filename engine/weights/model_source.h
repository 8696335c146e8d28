#pragma once
// What a model is loaded from: a checkpoint as it lies, one that is inflated, or no checkpoint at all.

#include <filesystem>
#include <memory>
#include <string>

#include "engine/model/model_spec.h"
#include "engine/weights/tensor_source.h"

namespace paceline {

struct ModelSource {
  std::filesystem::path directory;   // checkpoint and tokenizer, or a .gguf file; with random weights config.json is
                                     // enough
  std::filesystem::path shape_file;  // inflate to this shape; empty: the checkpoint's own
  bool random_weights = false;       // of the shape, else of config.json; no tensor is read
  DType widened = DType::bf16;       // what packed matrices of a .gguf file become: bf16 or f32
};

/// ModelSource::widened on the way to weights of `dtype`: values that float16 cannot hold are still there to be named.
inline DType widened_for(DType dtype) { return dtype == DType::bf16 ? DType::bf16 : DType::f32; }

/// What the forward pass is told. An inflated model keeps the checkpoint's positions and frequencies; random weights in
/// a shape have those of the shape file, and token ids from the folder's config.json where there is one. Throws what
/// load_model_spec, load_model_shape and inflate_model throw.
ModelSpec source_spec(const ModelSource& source);

/// Opens what source_spec describes. Throws Error(model_file).
std::unique_ptr<TensorSource> open_tensors(const ModelSource& source);

/// "inflated from target-7m to llama-3-8b (exact)", "random weights, shape llama-3-8b"; empty for a plain checkpoint.
std::string describe_source(const ModelSource& source);

}  // namespace paceline
