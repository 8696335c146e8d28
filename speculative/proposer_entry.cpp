#include "speculative/proposer_entry.h"

#include <map>

#include "engine/util/suggest.h"

namespace paceline {

const ProposerEntry* find_proposer(std::string_view name) {
  const std::vector<ProposerEntry>& list = proposer_list();
  const auto found = std::find_if(list.begin(), list.end(), [&](const ProposerEntry& e) { return e.name == name; });
  return found == list.end() ? nullptr : &*found;
}

const ProposerEntry& proposer_entry(std::string_view name) {
  if (const ProposerEntry* entry = find_proposer(name)) return *entry;
  fail(ExitCode::usage, "speculation.proposer: found \"{}\", expected {}", name,
       proposer_names_text(ProposerNames::all));
}

std::vector<std::string> proposer_names(ProposerNames which) {
  const auto is_meant = [which](const ProposerEntry& entry) {
    switch (which) {
      case ProposerNames::all: break;
      case ProposerNames::drafting: return entry.drafts();
      case ProposerNames::for_anyone: return !entry.drafts() || entry.drafts_for_anyone();
    }
    return true;
  };
  std::vector<std::string> names;
  for (const ProposerEntry& entry : proposer_list())
    if (is_meant(entry)) names.emplace_back(entry.name);
  return names;
}

std::string proposer_names_text(ProposerNames which) { return or_list(proposer_names(which)); }

std::vector<std::string> ProposerEntry::files_of(const std::any& chosen) const {
  std::vector<std::string> files;
  for (const ProposerOption& option : options) {
    if (!option.is_path) continue;
    if (auto path = std::get<std::string>(option.get(chosen)); !path.empty()) files.push_back(std::move(path));
  }
  return files;
}

std::vector<std::string_view> split_at_commas(std::string_view list) {
  std::vector<std::string_view> names;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    std::string_view name = list.substr(begin, end - begin);
    while (name.starts_with(' ')) name.remove_prefix(1);
    while (name.ends_with(' ')) name.remove_suffix(1);
    names.push_back(name);
    begin = end + 1;
  }
  return names;
}

std::any* kept_of_stage(std::any& kept, std::string_view name) {
  using Stages = std::map<std::string, std::any, std::less<>>;
  if (!kept.has_value()) kept = Stages();
  return &std::any_cast<Stages&>(kept)[std::string(name)];
}

std::unique_ptr<Proposer> make_stage(const ProposerSetup& setup, const ProposerStage& stage) {
  ProposerSetup own = setup;
  own.options = stage.options;
  own.stages = {};
  own.kept = setup.kept ? kept_of_stage(*setup.kept, stage.entry->name) : nullptr;
  return stage.entry->make(own);
}

}  // namespace paceline
