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
    .any_at_least16 = any_at_least,
    .any_at_least32 = any_at_least,
    .blocks = {decoder_of<PlainF32>(), decoder_of<PlainF16>(), decoder_of<PlainBf16>(), decoder_of<Q8_0>(),
               decoder_of<Q4_0>(), decoder_of<Q4_1>(), decoder_of<Q5_0>(), decoder_of<Q5_1>(), decoder_of<Q2K>(),
               decoder_of<Q3K>(), decoder_of<Q4K>(), decoder_of<Q5K>(), decoder_of<Q6K>(), decoder_of<Iq4Nl>(),
               decoder_of<Iq4Xs>()},
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
