#include "experiments/run/plan/sweep.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "engine/util/json_io.h"
#include "engine/weights/shard_weights_plan.h"
#include "experiments/config/keys/schema.h"
#include "experiments/config/server_command.h"
#include "experiments/run/engine_load.h"
#include "kernels/cpu/cores.h"

namespace paceline {

namespace {

/// Values of one point, by full path, in the order in which they are assigned.
using Point = std::vector<std::pair<std::string, ConfigJson>>;

/// Axes that advance together; one axis alone is a dimension of its own.
struct Dimension {
  std::vector<const SweepAxis*> axes;
  bool reload = false;
  size_t size() const { return axes[0]->values.size(); }
};

std::vector<Dimension> dimensions_of(const SweepConfig& sweep) {
  std::vector<Dimension> dimensions;
  std::unordered_set<std::string> zipped;
  for (const SweepAxis& axis : sweep.axes) {
    if (zipped.contains(axis.path)) continue;
    Dimension dimension;
    dimension.axes.push_back(&axis);
    for (const std::vector<std::string>& group : sweep.zip) {
      if (std::find(group.begin(), group.end(), axis.path) == group.end()) continue;
      for (const SweepAxis& other : sweep.axes) {
        const bool in_group = std::find(group.begin(), group.end(), other.path) != group.end();
        if (in_group) zipped.insert(other.path);
        if (in_group && &other != &axis) dimension.axes.push_back(&other);
      }
    }
    for (const SweepAxis* member : dimension.axes) dimension.reload |= find_key(member->path)->reload;
    dimensions.push_back(std::move(dimension));
  }
  std::stable_partition(dimensions.begin(), dimensions.end(), [](const Dimension& d) { return d.reload; });
  return dimensions;
}

class Expander {
 public:
  Expander(const LoadedConfig& loaded, const ExpandContext& context)
      : loaded_(loaded), context_(context), sweep_(loaded.config.sweep), base_(loaded.config) {
    base_.sweep.axes.clear();
    base_.sweep.include.clear();
    base_.sweep.exclude.clear();
    base_.sweep.zip.clear();
    for (const ConfigJson& pattern : sweep_.exclude) fits_.push_back({.of_keys = std::vector<char>(pattern.size())});
    for (const std::string& text : sweep_.constraints) constraints_.push_back(Expression::parse(text));
    for (const SweepAxis& axis : sweep_.axes) varied_.push_back(find_key(axis.path));
    for (const ConfigJson& row : sweep_.include) {
      for (const auto& [path, value] : row.items()) {
        const KeySpec* key = find_key(path);
        if (key && std::find(varied_.begin(), varied_.end(), key) == varied_.end()) varied_.push_back(key);
      }
    }
  }

  ExpandedSweep run() {
    add_grid();
    add_included();
    check_patterns();
    group_by_load();
    name_cells();
    find_baselines();
    select();
    check_servers();
    return {.cells = std::move(cells_),
            .num_excluded = num_excluded_,
            .num_collapsed = num_collapsed_,
            .num_unselected = num_unselected_};
  }

 private:
  void add_grid() {
    if (sweep_.axes.empty()) {
      if (sweep_.include.empty()) add({});
      return;
    }
    const std::vector<Dimension> dimensions = dimensions_of(sweep_);
    size_t total = 1;
    for (const Dimension& dimension : dimensions) {
      total *= dimension.size();  // at most 1e5 * 1e5 before the check below
      if (total > kMaxCells) {
        fail_at(loaded_.origin_of("sweep.axes"), fmt::format("the axes cross to more than {} cells", kMaxCells));
      }
    }
    for (size_t index = 0; index < total; ++index) {
      Point point;
      size_t rest = index;
      std::vector<size_t> at(dimensions.size());
      for (size_t d = dimensions.size(); d-- > 0;) {  // the last dimension runs fastest
        at[d] = rest % dimensions[d].size();
        rest /= dimensions[d].size();
      }
      for (size_t d = 0; d < dimensions.size(); ++d) {
        for (const SweepAxis* axis : dimensions[d].axes) point.emplace_back(axis->path, axis->values[at[d]]);
      }
      add(point);
    }
  }

  /// What a row of sweep.include says beside its values; of a point of the grid, nothing.
  struct IncludedRow {
    std::optional<size_t> index;
    std::string label;
    std::optional<PublishedSpeedup> published;
  };

  void add_included() {
    if (cells_.size() + sweep_.include.size() > kMaxCells) {
      fail_at(loaded_.origin_of("sweep.include"), fmt::format("more than {} cells", kMaxCells));
    }
    for (size_t i = 0; i < sweep_.include.size(); ++i) {
      Point point;
      IncludedRow row{.index = i};
      for (const auto& [path, value] : sweep_.include[i].items()) {
        if (path == "label")
          row.label = value.get<std::string>();
        else if (path == "published")
          row.published = published_of(value, i);
        else
          point.emplace_back(path, value);
      }
      if (row.published && row.label.empty()) fail_at(origin_of_row(i), "a row with \"published\" needs a \"label\"");
      add(point, row);
    }
  }

  Origin origin_of_row(size_t include_index) const {
    const ConfigNode* const rows = loaded_.written("sweep.include");
    return rows && include_index < rows->items.size() ? rows->items[include_index].origin
                                                      : loaded_.origin_of("sweep.include");
  }

  PublishedSpeedup published_of(const ConfigJson& value, size_t include_index) const {
    const PublishedSpeedup published{.over = value.at("over").get<std::string>(),
                                     .speedup = value.at("speedup").get<double>(),
                                     .source = value.value("source", "")};
    std::string labels;
    int num_rows = 0;
    for (const ConfigJson& row : sweep_.include) {
      const auto label = row.find("label");
      if (label == row.end()) continue;
      num_rows += *label == published.over ? 1 : 0;
      labels += fmt::format("{}\"{}\"", labels.empty() ? "" : ", ", label->get<std::string>());
    }
    if (num_rows == 0)
      fail_at(origin_of_row(include_index),
              fmt::format("\"published\" is over \"{}\", which is no row's label; labels: {}", published.over, labels));
    if (num_rows > 1)
      fail_at(origin_of_row(include_index),
              fmt::format("\"published\" is over \"{}\", the label of {} rows: give each row a label of its own",
                          published.over, num_rows));
    return published;
  }

  void add(const Point& point, const IncludedRow& row = {}) {
    Cell cell;
    cell.label = row.label;
    cell.published = row.published;
    cell.config = base_;
    std::unordered_set<std::string> assigned;
    for (const auto& [path, value] : point) {
      find_key(path)->assign(cell.config, value);
      assigned.insert(path);
    }
    if (!cell.config.speculation.drafts()) cell.config.speculation.num_speculative_tokens = 0;
    if (!loaded_.deferred.empty()) evaluate_deferred(loaded_, context_.devices, cell.config);
    // An axis overrules an expression for the same key.
    for (const auto& [path, value] : point) {
      if (loaded_.deferred.contains(path)) find_key(path)->assign(cell.config, value);
    }
    derive_paths(cell.config);
    cell.config_hash = config_hash(config_identity(cell.config));
    if (!known_.insert(cell.config_hash).second) {
      if (row.index) fail_at(origin_of_row(*row.index), "duplicate cell: the sweep already has one with these values");
      ++num_collapsed_;
      return;
    }
    cell.skip_reason = reason_to_skip(cell.config);
    const bool is_excluded = fits_pattern(cell.config);
    if (!cell.skip_reason && is_excluded) {
      ++num_excluded_;
      return;
    }
    set_load_keys(cell);
    cells_.push_back(std::move(cell));
  }

  std::optional<std::string> reason_to_skip(const ExperimentConfig& config) const {
    if (const std::optional<ConfigConflict> conflict = find_conflict(config)) return conflict->message;
    const ExpressionNames names = names_for(config, context_.devices);
    for (const Expression& constraint : constraints_) {
      try {
        const ExpressionValue value = constraint.evaluate(names);
        const bool* met = std::get_if<bool>(&value);
        if (!met) {
          fail_at(loaded_.origin_of("sweep.constraints"),
                  fmt::format("the constraint \"{}\" is neither true nor false", constraint.text()));
        }
        if (!*met) return describe_unmet(constraint, names);
      } catch (const ExpressionError& error) {
        fail_at(loaded_.origin_of("sweep.constraints"),
                fmt::format("in the constraint \"{}\": {}", constraint.text(), error.message));
      }
    }
    if (config.is_foreign()) return std::nullopt;  // its devices are not ours
    if (const std::optional<ConfigConflict> conflict = device_conflict(config.engine, context_.gpus))
      return conflict->message;
    return std::nullopt;
  }

  static std::string describe_unmet(const Expression& constraint, const ExpressionNames& names) {
    std::string values;
    for (const auto& [name, offset] : constraint.names()) {
      const std::optional<ExpressionValue> value = names(name);
      if (!value) continue;
      values += values.empty() ? "" : ", ";
      values += std::visit([&](const auto& known) { return fmt::format("{} = {}", name, known); }, *value);
    }
    return fmt::format("{} is not met: {}", constraint.text(), values);
  }

  /// Whether a pattern of sweep.exclude fits the cell, and for those that have fitted none yet, which keys do.
  bool fits_pattern(const ExperimentConfig& config) {
    bool fits_any = false;
    for (size_t i = 0; i < sweep_.exclude.size(); ++i) {
      PatternFit& fit = fits_[i];
      bool fits = true;
      size_t at = 0;
      for (const auto& [path, wanted] : sweep_.exclude[i].items()) {
        const ConfigJson value = find_key(path)->read(config);
        const bool met =
            wanted.is_array() ? std::find(wanted.begin(), wanted.end(), value) != wanted.end() : wanted == value;
        fit.of_keys[at++] |= char(met);
        fits = fits && met;
        if (!fits && fit.some_cell) break;
      }
      fit.some_cell = fit.some_cell || fits;
      fits_any = fits_any || fits;
    }
    return fits_any;
  }

  /// A pattern of the file itself that fits no cell is a mistake, as is a key without effect. An inherited one is
  /// somebody else's, and one with a computed key may fit on another machine.
  void check_patterns() const {
    const ConfigNode* const rows = loaded_.written("sweep.exclude");
    if (!loaded_.is_as_written || loaded_.is_fragment() || !rows) return;
    Diagnostics diagnostics;
    for (size_t i = 0; i < std::min(fits_.size(), rows->items.size()); ++i) {
      const Origin& origin = rows->items[i].origin;
      if (fits_[i].some_cell || !origin.source || origin.source->name != loaded_.file.string()) continue;
      std::string reason = "none has all of these values";
      bool is_computed = false;
      size_t at = 0;
      for (const auto& [path, wanted] : sweep_.exclude[i].items()) {
        is_computed = is_computed || loaded_.deferred.contains(path);
        if (!fits_[i].of_keys[at++]) reason = fmt::format("none has {} {}", path, wanted.dump());
      }
      if (is_computed) continue;
      diagnostics.add(origin,
                      fmt::format("no cell fits this pattern of sweep.exclude: {}; change it, or take it out", reason));
    }
    diagnostics.throw_if_any();
  }

  void set_load_keys(Cell& cell) const {
    ConfigJson load = ConfigJson::object(), draft = ConfigJson::object();
    const bool is_own_server = cell.config.is_served() && !cell.config.is_foreign();
    if (cell.config.is_foreign() && cell.config.server.command && names_speculation(*cell.config.server.command)) {
      load["proposer"] = cell.config.speculation.proposer;
      if (cell.config.speculation.drafts()) load["k"] = cell.config.speculation.num_speculative_tokens;
    }
    for (const KeySpec& key : config_keys()) {
      // A server has its speculation, and how it draws by itself, from its start on.
      if (is_own_server && (is_below(key.path, "speculation") || is_below(key.path, "sampling")) && key.read &&
          key_applies(key, cell.config))
        load[key.path] = key.read(cell.config);
      if (cell.config.is_foreign() && !is_below(key.path, "server")) continue;
      if (key.reload && key_applies(key, cell.config)) load[key.path] = key.read(cell.config);
      if (key.names_second_model && key_applies(key, cell.config)) {
        draft[key.path] = key.read(cell.config);
      }
    }
    if (!draft.empty()) cell.draft_key = config_hash(draft);
    if (cell.config.is_served()) load["level"] = "http";
    cell.load_key = config_hash(load);
  }

  void group_by_load() {
    std::unordered_map<std::string, size_t> order;
    for (const Cell& cell : cells_) order.emplace(cell.load_key, order.size());
    const auto place = [&](const Cell& cell) { return std::pair(cell.config.is_served(), order[cell.load_key]); };
    std::stable_sort(cells_.begin(), cells_.end(), [&](const Cell& a, const Cell& b) { return place(a) < place(b); });
  }

  static std::string id_text(const ConfigJson& value) {
    std::string text = bare_text(value);
    if (const size_t slash = text.find_last_of("/:"); slash != std::string::npos) text = text.substr(slash + 1);
    for (char& c : text) {
      if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '-') c = '-';
    }
    return text;
  }

  void name_cells() {
    std::unordered_map<std::string, int> used;
    for (Cell& cell : cells_) {
      const ExperimentConfig& config = cell.config;
      const SpeculationConfig& speculation = config.speculation;
      cell.axes = {{"tp", config.engine.parallel.tp},
                   {"pp", config.engine.parallel.pp},
                   {"proposer", speculation.proposer},
                   {"num_speculative_tokens", speculation.num_speculative_tokens},
                   {"concurrency", config.load.concurrency}};
      cell.id = fmt::format("tp{}_pp{}_{}", config.engine.parallel.tp, config.engine.parallel.pp, speculation.proposer);
      if (speculation.drafts()) cell.id += fmt::format("_k{}", speculation.num_speculative_tokens);
      cell.id += config.load.mode == LoadMode::closed
                     ? fmt::format("_c{}", config.load.concurrency)
                     : fmt::format("_{}", names_of(config.load.mode)[size_t(config.load.mode)]);
      for (const KeySpec* key : varied_) {
        if (is_named(*key)) continue;
        const bool applies = key_applies(*key, config);
        const ConfigJson value = applies ? key->read(config) : ConfigJson(nullptr);
        cell.axes[key->path] = value;
        if (applies && value != ConfigJson(false)) {
          cell.id += value == ConfigJson(true) ? fmt::format("_{}", last_part(key->path))
                                               : fmt::format("_{}-{}", last_part(key->path), id_text(value));
        }
      }
      // Two values may look alike once they are fit for a file name.
      if (const int count = ++used[cell.id]; count > 1) cell.id += fmt::format("_{}", count);
    }
  }

  /// tp, pp, proposer, k and concurrency (or its mode) have their own place in id and axes.
  static bool is_named(const KeySpec& key) {
    static const std::unordered_set<std::string> kNamed = {"engine.parallel.tp", "engine.parallel.pp",
                                                           "speculation.proposer", "speculation.num_speculative_tokens",
                                                           "load.concurrency"};
    return kNamed.contains(key.path);
  }

  /// The varied keys in which a cell must equal a baseline with this config, as a comparable text.
  std::string match_text(const std::vector<const KeySpec*>& keys, const ExperimentConfig& config) const {
    ConfigJson values = ConfigJson::array();
    for (const KeySpec* key : keys) values.push_back(key->read(config));
    return values.dump();
  }

  void find_baselines() {
    const ConfigJson& pattern = sweep_.baseline;
    if (pattern.empty()) return;
    // Candidates by the keys that have an effect in them, then by the values of those keys.
    std::map<std::vector<const KeySpec*>, std::unordered_map<std::string, size_t>> candidates;
    for (size_t i = 0; i < cells_.size(); ++i) {
      Cell& cell = cells_[i];
      cell.is_baseline = std::all_of(pattern.items().begin(), pattern.items().end(), [&](const auto& item) {
        return find_key(item.key())->read(cell.config) == item.value();
      });
      if (!cell.is_baseline || cell.skip_reason) continue;
      std::vector<const KeySpec*> keys;
      for (const KeySpec* key : varied_) {
        if (!pattern.contains(key->path) && key_applies(*key, cell.config)) keys.push_back(key);
      }
      candidates[keys].emplace(match_text(keys, cell.config), i);
    }
    for (Cell& cell : cells_) {
      if (cell.is_baseline) continue;
      for (const auto& [keys, cells] : candidates) {
        const auto found = cells.find(match_text(keys, cell.config));
        if (found != cells.end()) {
          cell.baseline = found->second;
          break;
        }
      }
    }
    check_baseline_exists(candidates.empty());
  }

  void check_baseline_exists(bool none_found) const {
    if (!none_found || std::any_of(cells_.begin(), cells_.end(), [](const Cell& c) { return c.is_baseline; })) return;
    for (const auto& [path, value] : sweep_.baseline.items()) {
      if (std::find(varied_.begin(), varied_.end(), find_key(path)) == varied_.end())
        return;  // set elsewhere: no sweep of it
    }
    Origin at = loaded_.origin_of(loaded_.written("sweep.baseline") ? "sweep.baseline" : "sweep.axes");
    for (const auto& [path, value] : sweep_.baseline.items())
      if (const ConfigNode* const axis = loaded_.written_axis(path)) at = loaded_.written_last(at, axis->origin);
    fail_at(at, fmt::format("no cell has the values of sweep.baseline, {}: add them to the axes or change it",
                            sweep_.baseline.dump()));
  }

  void select() {
    if (loaded_.only) {
      std::vector<char> kept(cells_.size(), 0);
      size_t num_kept = 0;
      for (size_t i = 0; i < cells_.size(); ++i) {
        if (!is_selected(cells_[i].config)) continue;
        ++num_kept;
        kept[i] = 1;
        std::optional<size_t>& baseline = cells_[i].baseline;
        if (baseline && !is_selected(cells_[*baseline].config) && asks_the_same(cells_[i], cells_[*baseline]))
          baseline.reset();  // nobody wants it, and it would be the cell itself
        if (baseline) kept[*baseline] = 1;
      }
      if (num_kept == 0)
        fail(ExitCode::usage, "--only {}: no cell of {} meets it", loaded_.only->text(), cells_.size());
      keep(kept);
    }
    if (cells_.empty()) {
      fail_at(loaded_.origin_of("sweep.exclude"), "no cell is left: sweep.exclude takes all of them out");
    }
  }

  /// Of a cell whose server is not ours: all that reaches it.
  static std::string asked_text(const ExperimentConfig& config) {
    ConfigJson asked = config_identity(config);
    asked.erase("engine");
    asked.erase("speculation");
    if (config.server.command && !config.server.endpoint)
      asked["words"] =
          server_command(*config.server.command, {.port = 1,
                                                  .proposer = config.speculation.proposer,
                                                  .num_speculative_tokens = config.speculation.num_speculative_tokens});
    return asked.dump();
  }
  static bool asks_the_same(const Cell& a, const Cell& b) {
    return a.config.is_foreign() && b.config.is_foreign() && asked_text(a.config) == asked_text(b.config);
  }

  /// Cells that differ in nothing that their server, which is not ours, hears of would compare it with itself.
  void check_servers() const {
    std::unordered_map<std::string, const Cell*> first_to_ask;
    for (const Cell& cell : cells_) {
      if (!cell.config.is_foreign() || cell.skip_reason) continue;
      const auto [first, is_new] = first_to_ask.emplace(asked_text(cell.config), &cell);
      if (!is_new) fail_unheard(*first->second, cell);
    }
  }

  [[noreturn]] void fail_unheard(const Cell& first, const Cell& second) const {
    std::string keys;
    Origin origin = loaded_.origin_of("sweep.include");
    for (const KeySpec* key : varied_) {
      if (!is_below(key->path, "engine") && !is_below(key->path, "speculation")) continue;
      if (key->read(first.config) == key->read(second.config)) continue;
      if (const ConfigNode* const axis = loaded_.written_axis(key->path); axis && keys.empty()) origin = axis->origin;
      keys += fmt::format("{}{}", keys.empty() ? "" : ", ", key->path);
    }
    const ServerConfig& server = first.config.server;
    fail_at(origin,
            fmt::format(
                "cells {} and {} would compare a server with itself: {} does not know their {}; {}, or select "
                "one of them with --only",
                first.id, second.id, server.endpoint ? *server.endpoint : "server.command", keys,
                server.endpoint
                    ? "give each its own server.endpoint in sweep.include"
                    : "write {proposer} and {k} into it where those differ, or give each its own in sweep.include"));
  }

  bool is_selected(const ExperimentConfig& config) const {
    try {
      const ExpressionValue value = loaded_.only->evaluate(names_for(config, context_.devices));
      if (const bool* met = std::get_if<bool>(&value)) return *met;
    } catch (const ExpressionError& error) {
      fail(ExitCode::usage, "--only {}: {}", loaded_.only->text(), error.message);
    }
    fail(ExitCode::usage, "--only {}: this is neither true nor false; compare something, as in 'tp==2'",
         loaded_.only->text());
  }

  void keep(const std::vector<char>& kept) {
    std::vector<size_t> new_index(cells_.size());
    std::vector<Cell> left;
    for (size_t i = 0; i < cells_.size(); ++i) {
      new_index[i] = left.size();
      if (kept[i]) left.push_back(std::move(cells_[i]));
    }
    for (Cell& cell : left) {
      if (cell.baseline) cell.baseline = new_index[*cell.baseline];
    }
    num_unselected_ = int64_t(cells_.size() - left.size());
    cells_ = std::move(left);
  }

  /// What a pattern of sweep.exclude has fitted so far.
  struct PatternFit {
    bool some_cell = false;
    std::vector<char> of_keys;  // by its keys: some cell has such a value
  };

  const LoadedConfig& loaded_;
  const ExpandContext context_;
  const SweepConfig& sweep_;
  ExperimentConfig base_;  // without the parts of sweep that describe the grid
  std::vector<Expression> constraints_;
  std::vector<const KeySpec*> varied_;  // axes, then the further keys of include
  std::vector<PatternFit> fits_;        // of sweep.exclude
  std::vector<Cell> cells_;
  std::unordered_set<std::string> known_;
  int64_t num_excluded_ = 0, num_collapsed_ = 0, num_unselected_ = 0;
};

/// Where a cell's value of an integer key was written: in its axis, else under its own name.
Origin place_of(const LoadedConfig& loaded, const std::string& path, int value) {
  const ConfigNode* axes = loaded.written("sweep.axes");
  if (const ConfigNode* axis = axes ? axes->find(path) : nullptr) {
    for (const ConfigNode& item : axis->items) {
      if (item.kind == NodeKind::integer && item.integer == value) return item.origin;
    }
    return axis->origin;
  }
  return loaded.origin_of(loaded.written(path) ? path : "sweep.include");
}

std::optional<ModelSpec> spec_of(const ExperimentConfig& config) {
  if (config.engine.target.directory.empty()) return std::nullopt;
  try {
    return source_spec(target_source(config));
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

ExpandContext machine_context(const EngineConfig& engine) {
  const Gpus gpus;
  return {.devices = on_cuda(engine, gpus) ? gpus.num_devices : usable_cores(), .gpus = gpus};
}

std::vector<Cell> expand(const LoadedConfig& loaded, const ExpandContext& context) {
  return expand_counted(loaded, context).cells;
}

ExpandedSweep expand_counted(const LoadedConfig& loaded, const ExpandContext& context) {
  return Expander(loaded, context).run();
}

void check_splits(const LoadedConfig& loaded, const std::vector<Cell>& cells, SplitRule rule) {
  std::map<std::string, std::optional<ModelSpec>> specs;  // by folder and shape
  Diagnostics diagnostics;
  std::set<std::string> complained;
  const auto fits = [&](const ModelSpec& spec, int tp, int pp, const std::string& path) {
    try {
      validate_parallel(spec, tp, pp);
      return true;
    } catch (const Error& error) {
      if (complained.insert(error.what()).second)
        diagnostics.add(place_of(loaded, path, tp > 1 ? tp : pp), error.what());
      return false;
    }
  };
  bool some_can_run = false;
  for (const Cell& cell : cells) {
    if (cell.skip_reason) continue;
    const ExperimentConfig& config = cell.config;
    if (config.is_foreign()) {
      some_can_run = true;
      continue;
    }
    const std::string model =
        fmt::format("{}\n{}", config.engine.target.directory.string(), config.engine.target.shape_file.string());
    if (!specs.contains(model)) specs[model] = spec_of(config);
    if (!specs[model]) continue;
    const bool by_tp = fits(*specs[model], config.engine.parallel.tp, 1, "engine.parallel.tp");
    const bool by_pp = fits(*specs[model], 1, config.engine.parallel.pp, "engine.parallel.pp");
    some_can_run = some_can_run || (by_tp && by_pp);
  }
  if (rule == SplitRule::some_cell && some_can_run) return;
  diagnostics.throw_if_any();
}

int auto_threads_per_rank(const std::vector<Cell>& cells, int num_cores) {
  int64_t largest = 1;
  for (const Cell& cell : cells) {
    const int64_t num_ranks = int64_t{cell.config.engine.parallel.tp} * cell.config.engine.parallel.pp;
    if (!cell.skip_reason && !cell.config.is_foreign() && num_ranks <= num_cores)
      largest = std::max(largest, num_ranks);
  }
  return static_cast<int>(std::max<int64_t>(1, num_cores / largest));
}

}  // namespace paceline
