// Hopper's own instructions, each as one function: barriers in shared memory that count bytes, bulk copies,
// and wgmma with operand A in registers. Only inside MOETUNE_HOPPER code; PTX ISA, "Asynchronous Warpgroup
// Level Matrix".
#pragma once

#include <cstdint>

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define MOETUNE_HOPPER 1

namespace moetune::cuda {

__device__ __forceinline__ void barrier_init(std::uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void barrier_arrive(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
// One arrival, and bytes that copies will bring.
__device__ __forceinline__ void barrier_expect(std::uint32_t barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void barrier_wait(std::uint32_t barrier, int parity) {
  asm volatile(
      "{.reg .pred done;\n"
      "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}
// Of 16-byte aligned places and sizes.
__device__ __forceinline__ void bulk_load(std::uint32_t to_shared, const void* from, int bytes,
                                          std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
          to_shared),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}
__device__ __forceinline__ void bulk_store(void* to, std::uint32_t from_shared, int bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from_shared),
               "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void bulk_store_commit() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// Shared memory may be written again; it is not said that the stores can be seen.
__device__ __forceinline__ void bulk_store_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
__device__ __forceinline__ void bulk_store_wait() {
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
// Ordinary stores to shared memory before it, bulk stores after it.
__device__ __forceinline__ void fence_before_bulk() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

template <int registers>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
}
template <int registers>
__device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
}

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int pending>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}

// Rows of 128 bytes along K, 128-byte swizzle, groups of 8 rows behind each other; `at` as the start of a row
// group, plus 32 bytes for every 16 columns.
__device__ __forceinline__ std::uint64_t k_major_rows(std::uint32_t at) {
  return (std::uint64_t{1} << 62) | (std::uint64_t{1024 >> 4} << 32) | (std::uint64_t{1} << 16) |
         ((at & 0x3FFFF) >> 4);
}

// Operand b whose rows of 128 bytes are 64 columns of one k, 128-byte swizzle: `columns_apart` bytes to the
// next 64 columns; 16 k are 2,048 bytes.
__device__ __forceinline__ std::uint64_t turned_rows(std::uint32_t at, int columns_apart) {
  return (std::uint64_t{1} << 62) | (std::uint64_t{1024 >> 4} << 32) |
         (static_cast<std::uint64_t>(columns_apart >> 4) << 16) | ((at & 0x3FFFF) >> 4);
}

#define MOETUNE_D8(at)                                                                     \
  "+f"(d[at]), "+f"(d[(at) + 1]), "+f"(d[(at) + 2]), "+f"(d[(at) + 3]), "+f"(d[(at) + 4]), \
      "+f"(d[(at) + 5]), "+f"(d[(at) + 6]), "+f"(d[(at) + 7])
#define MOETUNE_D16(at) MOETUNE_D8(at), MOETUNE_D8((at) + 8)
#define MOETUNE_D32(at) MOETUNE_D16(at), MOETUNE_D16((at) + 16)
#define MOETUNE_N8 "%0,%1,%2,%3,%4,%5,%6,%7"
#define MOETUNE_N16 MOETUNE_N8 ",%8,%9,%10,%11,%12,%13,%14,%15"
#define MOETUNE_N32 MOETUNE_N16 ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define MOETUNE_N48 MOETUNE_N32 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"
#define MOETUNE_N64 MOETUNE_N48 ",%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define MOETUNE_N80 MOETUNE_N64 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79"
#define MOETUNE_N96 MOETUNE_N80 ",%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define MOETUNE_N128                                                             \
  MOETUNE_N96                                                                    \
  ",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111" \
  ",%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
#define MOETUNE_WGMMA(columns, numbers, a0, a1, a2, a3, b, turned, ...)                               \
  asm volatile("wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32.bf16.bf16 {" numbers "}, {%" #a0 \
               ",%" #a1 ",%" #a2 ",%" #a3 "}, %" #b ", 1, 1, 1, %" #turned ";"                        \
               : __VA_ARGS__                                                                          \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(rows), "n"(kIsTurned ? 1 : 0))

// d += a b: 64 x 16 by 16 x N. A warp's part of a is an operand of mma.m16n8k16, and so is d: d[4 j + i] is
// what c[i] of the j-th group of 8 columns would be. In flight until wgmma_wait(): neither a nor d may be
// touched. kIsTurned: rows of b are along its columns, turned_rows().
template <int N, bool kIsTurned = false>
__device__ __forceinline__ void wgmma(float (&d)[N / 2], const std::uint32_t (&a)[4], std::uint64_t rows) {
  static_assert(N == 16 || N == 32 || N == 64 || N == 96 || N == 128 || N == 160 || N == 192 || N == 256);
  if constexpr (N == 16)
    MOETUNE_WGMMA(16, MOETUNE_N8, 8, 9, 10, 11, 12, 13, MOETUNE_D8(0));
  else if constexpr (N == 32)
    MOETUNE_WGMMA(32, MOETUNE_N16, 16, 17, 18, 19, 20, 21, MOETUNE_D16(0));
  else if constexpr (N == 64)
    MOETUNE_WGMMA(64, MOETUNE_N32, 32, 33, 34, 35, 36, 37, MOETUNE_D32(0));
  else if constexpr (N == 96)
    MOETUNE_WGMMA(96, MOETUNE_N48, 48, 49, 50, 51, 52, 53, MOETUNE_D32(0), MOETUNE_D16(32));
  else if constexpr (N == 128)
    MOETUNE_WGMMA(128, MOETUNE_N64, 64, 65, 66, 67, 68, 69, MOETUNE_D32(0), MOETUNE_D32(32));
  else if constexpr (N == 160)
    MOETUNE_WGMMA(160, MOETUNE_N80, 80, 81, 82, 83, 84, 85, MOETUNE_D32(0), MOETUNE_D32(32), MOETUNE_D16(64));
  else if constexpr (N == 192)
    MOETUNE_WGMMA(192, MOETUNE_N96, 96, 97, 98, 99, 100, 101, MOETUNE_D32(0), MOETUNE_D32(32),
                  MOETUNE_D32(64));
  else
    MOETUNE_WGMMA(256, MOETUNE_N128, 128, 129, 130, 131, 132, 133, MOETUNE_D32(0), MOETUNE_D32(32),
                  MOETUNE_D32(64), MOETUNE_D32(96));
}

#undef MOETUNE_WGMMA

// d += a b: 64 x 16 by 16 x 128, both operands in shared memory as k_major_rows().
__device__ __forceinline__ void wgmma_shared(float (&d)[64], std::uint64_t a, std::uint64_t b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" MOETUNE_N64
               "}, %64, %65, 1, 1, 1, 0, 0;"
               : MOETUNE_D32(0), MOETUNE_D32(32)
               : "l"(a), "l"(b));
}
#undef MOETUNE_N128
#undef MOETUNE_N96
#undef MOETUNE_N80
#undef MOETUNE_N64
#undef MOETUNE_N48
#undef MOETUNE_N32
#undef MOETUNE_N16
#undef MOETUNE_N8
#undef MOETUNE_D32
#undef MOETUNE_D16
#undef MOETUNE_D8

}  // namespace moetune::cuda

#endif
