// The table of this instruction set. Included last by kernels_<isa>.cpp.

namespace paceline {
namespace {

constexpr CpuKernels kTable{
    .max_tile_rows = tile_rows_limit(),
    .max_attention_lines = kMaxAccumulators >= 24  ? 12
                           : kMaxAccumulators >= 6 ? 6
                                                   : 1,
    .pack_rows = {pack_rows<float>, pack_rows<Half>, pack_rows<BFloat>},
    .gemm = {gemm<float>, gemm<Half>, gemm<BFloat>},
    .pack_panel = {{pack_panel<float, float>, pack_panel<float, Half>, pack_panel<float, BFloat>},
                   {pack_panel<Half, float>, pack_panel<Half, Half>, pack_panel<Half, BFloat>},
                   {pack_panel<BFloat, float>, pack_panel<BFloat, Half>, pack_panel<BFloat, BFloat>}},
    .norm = norm,
    .unpack_row = {unpack_row<float>, unpack_row<Half>, unpack_row<BFloat>},
    .round_row = {round_row<float>, round_row<Half>, round_row<BFloat>},
    .rope = rope,
    .activation = activation,
    .softcap = softcap,
    .store_kv = {store_kv<float>, store_kv<Half>, store_kv<BFloat>},
    .attention_partial = {attention_partial<float>, attention_partial<Half>, attention_partial<BFloat>},
    .attention_merge = attention_merge,
    .attention_finish = attention_finish,
};

}  // namespace
}  // namespace paceline
