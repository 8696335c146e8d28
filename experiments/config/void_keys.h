#pragma once
// Keys that are written and have no effect, as the table's "scope" says: a rate of arrivals in a closed loop, a draft
// model that nobody drafts with.

#include "experiments/config/cross_checks.h"
#include "experiments/config/load.h"

namespace paceline {

/// Complains about each key that the file itself or the command line sets although no cell of the sweep reads it.
/// Inherited values are somebody else's; nor is a key meant that what decides about it was overridden later than itself
/// (--set load.mode=offline over a file with a concurrency), or that a profile of the file may bring to life. REQUIRES:
/// no resolved configuration, which names every key. Nothing is said of a key that is unsound or that depends
/// on an unsound one.
void check_void_keys(const LoadedConfig& loaded, const UnsoundKeys& unsound, Diagnostics& out);

}  // namespace paceline
