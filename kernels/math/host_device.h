#pragma once
// PACELINE_HD marks a formula that host and device compile from the same source.

#ifdef __CUDACC__
#define PACELINE_HD __host__ __device__
#else
#define PACELINE_HD
#endif
