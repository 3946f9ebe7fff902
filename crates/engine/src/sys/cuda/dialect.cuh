// The words of OpenCL C that the kernels use, in CUDA C++.
typedef unsigned int uint;
#define __kernel extern "C" __global__
#define __global
#define restrict __restrict__
#define HERE __device__ __forceinline__

HERE uint get_global_id(int) { return blockIdx.x * blockDim.x + threadIdx.x; }
HERE uint get_global_size(int) { return gridDim.x * blockDim.x; }
HERE uint get_local_size(int) { return blockDim.x; }

HERE float hw_fma(float a, float x, float b) { return fmaf(a, x, b); }
HERE double hw_fma(double a, double x, double b) { return fma(a, x, b); }

#ifdef __CUDACC_RTC__
// Two numbers of 16 bits in a register, as the instructions take them; without NVIDIA's headers, which need not be there.
struct hw_half {
    unsigned short bits;
};
struct hw_bfloat16 {
    unsigned short bits;
};
#define HW_SHORT(type, name, add)                                                                                     \
    HERE type hw_fma(type a, type x, type b) {                                                                        \
        type y;                                                                                                       \
        asm("fma.rn." name " %0, %1, %2, %3;" : "=h"(y.bits) : "h"(a.bits), "h"(x.bits), "h"(b.bits));                \
        return y;                                                                                                     \
    }                                                                                                                 \
    HERE uint hw_fma2(type, uint a, uint x, uint b) {                                                                 \
        uint y;                                                                                                       \
        asm("fma.rn." name "x2 %0, %1, %2, %3;" : "=r"(y) : "r"(a), "r"(x), "r"(b));                                  \
        return y;                                                                                                     \
    }                                                                                                                 \
    HERE type operator+(type a, type b) {                                                                             \
        type y;                                                                                                       \
        asm(add : "=h"(y.bits) : "h"(a.bits), "h"(b.bits));                                                           \
        return y;                                                                                                     \
    }
#if __CUDA_ARCH__ >= 530
HW_SHORT(hw_half, "f16", "add.rn.f16 %0, %1, %2;")
#endif
#if __CUDA_ARCH__ >= 800
HW_SHORT(hw_bfloat16, "bf16", "{ .reg .b16 one; mov.b16 one, 0x3f80; fma.rn.bf16 %0, %1, one, %2; }")
#endif
#endif

template <typename T, int N>
struct __align__(sizeof(T) * N < 16 ? sizeof(T) * N : 16) hw_vector {
    T lane[N];
    HERE hw_vector() {}
    HERE hw_vector(T all) {
        for (int i = 0; i < N; i++) lane[i] = all;
    }
};
#define HW_EACH(expression)                                                                                           \
    hw_vector<T, N> y;                                                                                                \
    _Pragma("unroll") for (int i = 0; i < N; i++) y.lane[i] = expression;                                             \
    return y;
template <typename T, int N> HERE hw_vector<T, N> operator+(const hw_vector<T, N> &a, const hw_vector<T, N> &b) {
    HW_EACH(a.lane[i] + b.lane[i])
}
template <typename T, int N> HERE hw_vector<T, N> operator*(const hw_vector<T, N> &a, const hw_vector<T, N> &b) {
    HW_EACH(a.lane[i] * b.lane[i])
}
template <typename T, int N> HERE hw_vector<T, N> operator*(const T &s, const hw_vector<T, N> &b) {
    HW_EACH(s * b.lane[i])
}
template <typename T, int N> HERE hw_vector<T, N> &operator+=(hw_vector<T, N> &a, const hw_vector<T, N> &b) {
    return a = a + b;
}
template <typename T, int N>
HERE hw_vector<T, N> hw_fma(const hw_vector<T, N> &a, const hw_vector<T, N> &x, const hw_vector<T, N> &b) {
    HW_EACH(hw_fma(a.lane[i], x.lane[i], b.lane[i]))
}
#ifdef __CUDACC_RTC__
#define HW_PAIRS(type)                                                                                                \
    template <int N>                                                                                                  \
    HERE hw_vector<type, N> hw_fma(const hw_vector<type, N> &a, const hw_vector<type, N> &x,                          \
                                   const hw_vector<type, N> &b) {                                                     \
        hw_vector<type, N> y;                                                                                         \
        _Pragma("unroll") for (int i = 0; i < N; i += 2) {                                                            \
            uint pair = hw_fma2(type(), *(const uint *)&a.lane[i], *(const uint *)&x.lane[i],                         \
                                *(const uint *)&b.lane[i]);                                                           \
            *(uint *)&y.lane[i] = pair;                                                                               \
        }                                                                                                             \
        return y;                                                                                                     \
    }
#if __CUDA_ARCH__ >= 530
HW_PAIRS(hw_half)
#endif
#if __CUDA_ARCH__ >= 800
HW_PAIRS(hw_bfloat16)
#endif
#endif
#define half hw_half
#define bfloat16 hw_bfloat16
#define fma hw_fma

template <int N, typename T> HERE hw_vector<T, N> hw_load(uint at, const T *from) {
    hw_vector<T, N> y;
    _Pragma("unroll") for (int i = 0; i < N; i++) y.lane[i] = from[at * N + i];
    return y;
}
template <typename T, int N> HERE void hw_store(const hw_vector<T, N> &what, uint at, T *to) {
    _Pragma("unroll") for (int i = 0; i < N; i++) to[at * N + i] = what.lane[i];
}
#define vload2 hw_load<2>
#define vload4 hw_load<4>
#define vload8 hw_load<8>
#define vload16 hw_load<16>
#define vstore2 hw_store
#define vstore4 hw_store
#define vstore8 hw_store
#define vstore16 hw_store
#define float2 hw_vector<float, 2>
#define float4 hw_vector<float, 4>
#define float8 hw_vector<float, 8>
#define float16 hw_vector<float, 16>
#define double2 hw_vector<double, 2>
#define double4 hw_vector<double, 4>
#define double8 hw_vector<double, 8>
#define double16 hw_vector<double, 16>
#define half2 hw_vector<hw_half, 2>
#define half4 hw_vector<hw_half, 4>
#define half8 hw_vector<hw_half, 8>
#define half16 hw_vector<hw_half, 16>
#define bfloat162 hw_vector<hw_bfloat16, 2>
#define bfloat164 hw_vector<hw_bfloat16, 4>
#define bfloat168 hw_vector<hw_bfloat16, 8>
#define bfloat1616 hw_vector<hw_bfloat16, 16>
#define int2 hw_vector<int, 2>
#define int4 hw_vector<int, 4>
#define int8 hw_vector<int, 8>
#define int16 hw_vector<int, 16>
#define char2 hw_vector<char, 2>
#define char4 hw_vector<char, 4>
#define char8 hw_vector<char, 8>
#define char16 hw_vector<char, 16>
