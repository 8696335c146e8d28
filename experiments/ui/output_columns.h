#pragma once
// How wide a table on standard output may be.

namespace paceline {

/// Columns of the terminal that standard output is; where the terminal does not say, what COLUMNS says. 0: it is a pipe
/// or a file, or nobody says.
int output_columns();

}  // namespace paceline
