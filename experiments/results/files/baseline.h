#pragma once
// The exact gate: token hashes and counters of a run against a committed baseline. In strict numerics they depend on no
// machine, thread count or clock, so any difference is a change of behaviour; devices of another kind (CPUs, GPUs) have
// bits, and so a baseline, of their own.

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "experiments/results/results.h"

namespace paceline {

/// Exact facts of every finished cell, as committed in results/baselines/: {"schema": "paceline.baseline",
/// "schema_version", "name", "profile", "environment", "settings", "cells": {<id>: {"output_hash", "requests",
/// "output_tokens", "counters"}}}. environment: what the run was made on, for readers; it is not compared. settings:
/// what decides tokens and steps (KeyEffect::steps), by path, but for axes, which the ids of cells name.
/// Taken from the first repetition; "repetitions_agree" tells whether the others are the same, where all draw alike.
nlohmann::json make_baseline(const RunResult& run);

/// Reads one. Throws Error(store): missing or damaged file, another schema, a newer version (both versions named).
nlohmann::json read_baseline(const std::filesystem::path& file);

/// The hardware that a baseline was made on, "AMD EPYC, NVIDIA H200, driver 580.65.06, CUDA 13.0, 8 threads a rank";
/// empty when it does not say.
std::string made_on(const nlohmann::json& baseline);

/// What decides whether exact differences from a baseline say anything about the program.
struct BaselineSubject {
  std::string name;                                // of the experiment; empty: not recorded
  std::string profile;                             // empty: none
  int64_t requests = 0;                            // of a cell; 0: not recorded
  std::map<std::string, nlohmann::json> settings;  // empty: not recorded
};
BaselineSubject subject_of(const nlohmann::json& baseline);

/// The settings of a baseline's subject: of a resolved configuration.
std::map<std::string, nlohmann::json> exact_settings(const nlohmann::json& resolved);

/// What makes `now` another experiment than `before`, where both are known: "name ngram_tp2, here tp_vs_pp",
/// "sampling.max_tokens 48, here 17"; empty: nothing. Profiles are names for values, no values.
std::vector<std::string> subject_differences(const BaselineSubject& before, const BaselineSubject& now);

/// "ngram_tp2 (12 requests a cell, profile quick)"
std::string described(const BaselineSubject& subject);

/// One exact fact that is not what the baseline says.
struct BaselineDifference {
  std::string cell;                        // id
  std::string field;                       // "counters.accepted"; empty: the whole cell
  std::optional<nlohmann::json> baseline;  // no value: the baseline has no such field
  std::optional<nlohmann::json> now;       // no value: this run has none
};

/// Leaf by leaf, so that each names the one number that moved; cells that are missing or new included; empty when
/// nothing changed. Both as made by make_baseline().
std::vector<BaselineDifference> baseline_differences(const nlohmann::json& baseline, const nlohmann::json& current);

/// "<cell>: counters.accepted: baseline 10, now 12"
std::string described(const BaselineDifference& difference);

}  // namespace paceline
