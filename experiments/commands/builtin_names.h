#pragma once
// Models and other things that ship with the program, as options of commands name them.

#include <filesystem>
#include <string>

#include "experiments/config/config.h"
#include "experiments/config/file/load.h"

namespace paceline {

/// A configuration of defaults, for commands without a file.
ExperimentConfig default_config();
/// The same with what `overrides` say, checked as an experiment's. Throws Error(usage) where nothing built in is found.
ExperimentConfig default_config(const ConfigOverrides& overrides);

/// Throws Error(usage) where nothing below `folder` is called `name`: the folders in it, or the files with `extension`.
void check_builtin(const ExperimentConfig& config, const char* option, const std::string& name, const char* folder,
                   const std::string& prefix, const std::string& extension);

/// A wrong name behind builtin: is a typo. Throws Error(usage).
void check_model_name(const ExperimentConfig& config, const char* option, const std::string& name);

/// did_you_mean() for a model that is not there: one that is built in, or what lies beside the place that was named.
std::string did_you_mean_model(const ExperimentConfig& config, const std::string& name);

/// The model that an option names: builtin:NAME or a path as written, or what $PACELINE_MODELS holds of that name where
/// nothing lies there. Throws Error(usage) as check_model_name does.
std::string found_model(const ExperimentConfig& config, const char* option, const std::string& name);

/// Where found_model() lies.
std::filesystem::path model_path(const char* option, const std::string& name);

/// Of --pre.
inline constexpr const char* kPreHelp = "engine.target.pre: the pre-tokenizer, if the tokenizer's file names none";

}  // namespace paceline
