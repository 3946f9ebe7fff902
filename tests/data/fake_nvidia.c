/* NVIDIA's driver, management library, compiler, cuBLASLt and cuFile with one GPU, for tests: kernels run on the processor. Facts come
 * from the environment, and any call fails on demand.
 *
 * HWDYNO_FAKE_FAIL="FUNCTION:STATUS" makes every call of a function return a status, "FUNCTION@N:STATUS" its n-th
 * alone, and "FUNCTION:crash" crash. HWDYNO_FAKE_LEFT names a file that gets, when the process ends, what was made and
 * not released. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static int failed(const char *name, int *calls) {
    const char *plan = getenv("HWDYNO_FAKE_FAIL");
    size_t length = strlen(name);
    __atomic_add_fetch(calls, 1, __ATOMIC_RELAXED);
    if (plan == NULL || strncmp(plan, name, length) != 0 || (plan[length] != ':' && plan[length] != '@')) return 0;
    if (plan[length] == '@' && atoi(plan + length + 1) != *calls) return 0;
    const char *status = strchr(plan, ':');
    if (status == NULL) return 0;
    if (strcmp(status + 1, "crash") == 0) abort();
    return atoi(status + 1);
}

static int fact(const char *name, int otherwise) {
    const char *given = getenv(name);
    return given == NULL ? otherwise : atoi(given);
}

/* What is made and not released. */
enum { CONTEXT, MEMORY, PINNED, STREAM, EVENT, MODULE, PROGRAM, MANAGEMENT, FILES, ROOMS, PRODUCTS, KINDS };
static const char *NAMES[KINDS] = {"context", "memory", "pinned", "stream", "event", "module", "program", "management", "file", "room", "product"};
static int live[KINDS];
static void made(int kind, int by) { __atomic_add_fetch(&live[kind], by, __ATOMIC_RELAXED); }

__attribute__((destructor)) static void left(void) {
    const char *path = getenv("HWDYNO_FAKE_LEFT");
    FILE *file = path == NULL ? NULL : fopen(path, "a");
    if (file == NULL) return;
    for (int kind = 0; kind < KINDS; kind++)
        if (live[kind] != 0) fprintf(file, "%s %d\n", NAMES[kind], live[kind]);
    fclose(file);
}

#define FAILS                                    \
    static int calls;                            \
    int status = failed(__func__, &calls);       \
    if (status) return status

/* libcuda: devices */
int cuInit(unsigned flags) { FAILS; (void)flags; return fact("HWDYNO_FAKE_GPUS", 1) ? 0 : 100; }
int cuDriverGetVersion(int *version) { FAILS; *version = 12040; return 0; }
int cuDeviceGetCount(int *count) { FAILS; *count = fact("HWDYNO_FAKE_GPUS", 1); return 0; }
int cuDeviceGet(int *device, int at) { FAILS; *device = at; return 0; }
int cuDeviceGetName(char *name, int room, int device) { FAILS; (void)device; strncpy(name, "Fake M40", room); return 0; }
int cuDeviceTotalMem_v2(size_t *bytes, int device) { FAILS; (void)device; *bytes = (size_t)12 << 30; return 0; }
int cuDeviceGetPCIBusId(char *id, int room, int device) { FAILS; (void)device; strncpy(id, "0000:03:00.0", room); return 0; }
int cuDeviceGetAttribute(int *value, int which, int device) {
    FAILS;
    (void)device;
    switch (which) {
        case 1: *value = 1024; return 0;
        case 8: *value = 49152; return 0;
        case 13: *value = 1112000; return 0;
        case 16: *value = fact("HWDYNO_FAKE_UNITS", 24); return 0;
        case 36: *value = 3004000; return 0;
        case 37: *value = 384; return 0;
        case 38: *value = 3145728; return 0;
        case 39: *value = 2048; return 0;
        case 40: *value = 2; return 0;
        case 75: *value = fact("HWDYNO_FAKE_CAPABILITY", 52) / 10; return 0;
        case 76: *value = fact("HWDYNO_FAKE_CAPABILITY", 52) % 10; return 0;
        default: return 1;
    }
}

/* libcuda: work, done before a call returns */
int cuDevicePrimaryCtxRetain(void **context, int device) { FAILS; (void)device; *context = live; made(CONTEXT, 1); return 0; }
int cuDevicePrimaryCtxRelease_v2(int device) { (void)device; made(CONTEXT, -1); return 0; }
int cuCtxSetCurrent(void *context) { FAILS; (void)context; return 0; }
int cuMemAlloc_v2(uint64_t *address, size_t bytes) { FAILS; *address = (uint64_t)aligned_alloc(256, (bytes + 255) / 256 * 256); made(MEMORY, 1); return 0; }
int cuMemFree_v2(uint64_t address) { free((void *)address); made(MEMORY, -1); return 0; }
int cuMemHostAlloc(void **address, size_t bytes, unsigned flags) { FAILS; (void)flags; *address = malloc(bytes); made(PINNED, 1); return 0; }
int cuMemFreeHost(void *address) { free(address); made(PINNED, -1); return 0; }
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream) { FAILS; (void)stream; memcpy((void *)to, from, bytes); return 0; }
int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream) { FAILS; (void)stream; memcpy(to, (void *)from, bytes); return 0; }
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *stream) { FAILS; (void)stream; memcpy((void *)to, (void *)from, bytes); return 0; }
int cuStreamCreate(void **stream, unsigned flags) { FAILS; (void)flags; *stream = malloc(1); made(STREAM, 1); return 0; }
int cuStreamSynchronize(void *stream) { FAILS; (void)stream; return 0; }
int cuStreamDestroy_v2(void *stream) { free(stream); made(STREAM, -1); return 0; }
int cuEventCreate(void **event, unsigned flags) { FAILS; (void)flags; *event = calloc(1, sizeof(struct timespec)); made(EVENT, 1); return 0; }
int cuEventRecord(void *event, void *stream) { FAILS; (void)stream; clock_gettime(CLOCK_MONOTONIC, event); return 0; }
int cuEventSynchronize(void *event) { FAILS; (void)event; return 0; }
int cuEventElapsedTime(float *ms, void *from, void *to) {
    FAILS;
    const struct timespec *a = from, *b = to;
    *ms = (float)((b->tv_sec - a->tv_sec) * 1e3 + (b->tv_nsec - a->tv_nsec) / 1e6);
    return 0;
}
int cuEventDestroy_v2(void *event) { free(event); made(EVENT, -1); return 0; }

/* A program is a shared library with its length before it. */
int cuModuleLoadData(void **module, const void *image) {
    FAILS;
    uint64_t bytes;
    char path[64];
    memcpy(&bytes, image, 8);
    int file = memfd_create("kernel", 0);
    if (file < 0 || write(file, (const char *)image + 8, bytes) != (ssize_t)bytes) return 200;
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    close(file);
    if (*module == NULL) return 200;
    made(MODULE, 1);
    return 0;
}
int cuModuleUnload(void *module) { dlclose(module); made(MODULE, -1); return 0; }

struct place { unsigned x, y, z; };
struct function { void (*entry)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t); struct place **places; };

int cuModuleGetFunction(void **function, void *module, const char *name) {
    FAILS;
    *function = NULL;
    void *entry = dlsym(module, name);
    struct function *found = dlsym(module, "hw_function");
    if (entry == NULL || found == NULL) return 500;
    memcpy(&found->entry, &entry, sizeof entry);
    *function = found;
    return 0;
}

int cuLaunchKernel(void *given, unsigned x, unsigned y, unsigned z, unsigned group, unsigned gy, unsigned gz,
                   unsigned shared, void *stream, void **arguments, void **extra) {
    FAILS;
    (void)y, (void)z, (void)gy, (void)gz, (void)shared, (void)stream, (void)extra;
    struct function *one = given;
    uint64_t values[6];
    for (int at = 0; at < 6; at++) memcpy(&values[at], arguments[at], 8);
    *one->places[2] = (struct place){group, 1, 1};
    *one->places[3] = (struct place){x, 1, 1};
    for (unsigned block = 0; block < x; block++)
        for (unsigned thread = 0; thread < group; thread++) {
            one->places[0]->x = thread;
            one->places[1]->x = block;
            one->entry(values[0], values[1], values[2], values[3], values[4], values[5]);
        }
    return 0;
}

/* libnvrtc: the C++ compiler of this machine */
struct program { char *source; char *image; size_t bytes; };

static const char BEFORE[] =
    "#include <cmath>\n"
    "struct hw_place { unsigned x, y, z; };\n"
    "static hw_place threadIdx, blockIdx, blockDim, gridDim;\n"
    "static hw_place *hw_places[] = {&threadIdx, &blockIdx, &blockDim, &gridDim};\n"
    "extern \"C\" { struct { void *entry; hw_place **places; } hw_function = {nullptr, hw_places}; }\n"
    "typedef _Float16 hw_half;\n"
    "typedef float hw_bfloat16;\n"
    "static inline _Float16 hw_fma(_Float16 a, _Float16 x, _Float16 b) { return (_Float16)std::fma((double)a, (double)x, (double)b); }\n"
    "#define __global__\n#define __device__\n#define __forceinline__ inline\n#define __align__(n) alignas(n)\n";

int nvrtcVersion(int *major, int *minor) { *major = 12; *minor = 4; return 0; }
const char *nvrtcGetErrorString(int status) { return status == 6 ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR"; }
int nvrtcCreateProgram(void **program, const char *source, const char *name, int headers, const char *const *texts, const char *const *names) {
    FAILS;
    (void)name, (void)headers, (void)texts, (void)names;
    struct program *one = calloc(1, sizeof *one);
    one->source = strdup(source);
    *program = one;
    made(PROGRAM, 1);
    return 0;
}
int nvrtcCompileProgram(void *program, int count, const char *const *options) {
    FAILS;
    struct program *one = program;
    if (count < 1 || strncmp(options[0], "--gpu-architecture=sm_", 22) != 0) return 5;
    /* Each source is compiled once for all tests, as that takes most of their time. */
    uint64_t hash = 14695981039346656037u;
    for (const char *at = one->source; *at; at++) hash = (hash ^ (unsigned char)*at) * 1099511628211u;
    const char *folder = getenv("HWDYNO_FAKE_KERNELS");
    char path[512], unfinished[600], command[800];
    snprintf(path, sizeof path, "%s/%016llx.kernel", folder ? folder : "/tmp", (unsigned long long)hash);
    if (access(path, R_OK) != 0) {
        snprintf(unfinished, sizeof unfinished, "%s.%d", path, (int)getpid());
        snprintf(command, sizeof command, "c++ -O2 -w -shared -fPIC -fwrapv -march=native -x c++ - -o %s 2>&1", unfinished);
        FILE *compiler = popen(command, "w");
        fputs(BEFORE, compiler);
        fputs(one->source, compiler);
        if (pclose(compiler) != 0 || rename(unfinished, path) != 0) return 6;
    }
    FILE *made_file = fopen(path, "r");
    if (made_file == NULL) return 6;
    fseek(made_file, 0, SEEK_END);
    uint64_t bytes = (uint64_t)ftell(made_file);
    rewind(made_file);
    one->bytes = bytes + 8;
    one->image = malloc(one->bytes);
    memcpy(one->image, &bytes, 8);
    int whole = fread(one->image + 8, 1, bytes, made_file) == bytes;
    fclose(made_file);
    return whole ? 0 : 6;
}
int nvrtcGetCUBINSize(void *program, size_t *bytes) { FAILS; *bytes = ((struct program *)program)->bytes; return 0; }
int nvrtcGetCUBIN(void *program, char *image) { FAILS; struct program *one = program; memcpy(image, one->image, one->bytes); return 0; }
int nvrtcGetProgramLogSize(void *program, size_t *bytes) { (void)program; *bytes = 16; return 0; }
int nvrtcGetProgramLog(void *program, char *log) { (void)program; memset(log, 0, 16); strcpy(log, "made to fail"); return 0; }
int nvrtcDestroyProgram(void **program) {
    struct program *one = *program;
    free(one->source);
    free(one->image);
    free(one);
    made(PROGRAM, -1);
    return 0;
}

/* libnvidia-ml */
int nvmlInit_v2(void) { FAILS; made(MANAGEMENT, 1); return 0; }
int nvmlShutdown(void) { made(MANAGEMENT, -1); return 0; }
int nvmlSystemGetDriverVersion(char *text, unsigned room) { FAILS; strncpy(text, "550.54.14", room); return 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **device) { FAILS; *device = (void *)id; return 0; }
#define NUMBER(name, value) int name(void *device, unsigned *into) { FAILS; (void)device; *into = (value); return 0; }
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, fact("HWDYNO_FAKE_GENERATION", 1))
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, 8)
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, 3)
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, 16)
NUMBER(nvmlDeviceGetPowerUsage, 61500)
NUMBER(nvmlDeviceGetEnforcedPowerLimit, 250000)
int nvmlDeviceGetClockInfo(void *device, unsigned which, unsigned *into) { FAILS; (void)device; *into = which == 1 ? fact("HWDYNO_FAKE_CLOCK", 949) : 3004; return 0; }
int nvmlDeviceGetMaxClockInfo(void *device, unsigned which, unsigned *into) { FAILS; (void)device; (void)which; *into = 1114; return 0; }
int nvmlDeviceGetTemperature(void *device, unsigned which, unsigned *into) { FAILS; (void)device; (void)which; *into = 41; return 0; }
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, uint64_t *into) { FAILS; (void)device; *into = fact("HWDYNO_FAKE_REASONS", 0x1 | 0x4 | 0x20); return 0; }
int nvmlDeviceGetEccMode(void *device, unsigned *now, unsigned *then) { FAILS; (void)device; *now = *then = 1; return 0; }
int nvmlDeviceGetMigMode(void *device, unsigned *now, unsigned *then) { FAILS; (void)device; (void)now; (void)then; return fact("HWDYNO_FAKE_MIG", 0) ? (*now = *then = 1, 0) : 3; }

/* libcufile: memory of the device is the processor's */
struct answer { int status, of_driver; };
struct description { int kind; union { int descriptor; void *handle; } of; const void *operations; };
#define ANSWERS                                             \
    static int calls;                                       \
    int status = failed(__func__, &calls);                  \
    if (status) return (struct answer){status, status}

struct answer cuFileDriverOpen(void) { ANSWERS; return (struct answer){0, 0}; }
struct answer cuFileHandleRegister(void **handle, struct description *given) {
    ANSWERS;
    if (given->kind != 1) return (struct answer){5022, 0};
    *handle = (void *)(intptr_t)(given->of.descriptor + 1);
    made(FILES, 1);
    return (struct answer){0, 0};
}
void cuFileHandleDeregister(void *handle) { (void)handle; made(FILES, -1); }
struct answer cuFileBufRegister(const void *memory, size_t bytes, int flags) { ANSWERS; (void)memory, (void)bytes, (void)flags; made(ROOMS, 1); return (struct answer){0, 0}; }
struct answer cuFileBufDeregister(const void *memory) { (void)memory; made(ROOMS, -1); return (struct answer){0, 0}; }
ssize_t cuFileRead(void *handle, void *memory, size_t bytes, off_t from, off_t at) {
    static int calls;
    int status = failed(__func__, &calls);
    if (status) return -status;
    /* The descriptor may be of direct access, which the memory of this device is not aligned for. */
    char path[64], *part = (char *)memory + at;
    snprintf(path, sizeof path, "/proc/self/fd/%d", (int)((intptr_t)handle - 1));
    int file = open(path, O_RDONLY);
    ssize_t moved = pread(file, part, bytes, from);
    close(file);
    return moved;
}

/* libcublasLt: products of the processor, by columns, the first factor transposed */
struct layout { int type; uint64_t rows, columns; int64_t stride; };

static double number(int type, const void *from, int64_t at) {
    union { uint32_t bits; float value; } single;
    switch (type) {
        case 0: return ((const float *)from)[at];
        case 1: return ((const double *)from)[at];
        case 2: return (double)((const _Float16 *)from)[at];
        case 3: return ((const int8_t *)from)[at];
        case 14: single.bits = (uint32_t)((const uint16_t *)from)[at] << 16; return single.value;
        default: {
            int byte = ((const uint8_t *)from)[at], exponent = byte >> 3 & 15, fraction = byte & 7;
            double size = exponent ? 1 + fraction / 8.0 : fraction / 8.0;
            for (int power = exponent ? exponent : 1; power > 7; power--) size *= 2;
            for (int power = exponent ? exponent : 1; power < 7; power++) size /= 2;
            return byte & 0x80 ? -size : size;
        }
    }
}
static void store(int type, void *to, int64_t at, double value) {
    union { uint32_t bits; float value; } single;
    switch (type) {
        case 0: ((float *)to)[at] = (float)value; return;
        case 1: ((double *)to)[at] = value; return;
        case 2: ((_Float16 *)to)[at] = (_Float16)value; return;
        case 10: ((int32_t *)to)[at] = (int32_t)value; return;
        default:
            single.value = (float)value;
            ((uint16_t *)to)[at] = (single.bits + 0x7fff + (single.bits >> 16 & 1)) >> 16;
    }
}
size_t cublasLtGetVersion(void) { return 120804; }
int cublasLtCreate(void **library) { FAILS; *library = malloc(1); made(PRODUCTS, 1); return 0; }
int cublasLtDestroy(void *library) { free(library); made(PRODUCTS, -1); return 0; }
int cublasLtMatmulDescCreate(void **what, int sums, int scale) { FAILS; (void)scale; *what = malloc(sizeof(int)); *(int *)*what = sums; made(PRODUCTS, 1); return 0; }
int cublasLtMatmulDescDestroy(void *what) { free(what); made(PRODUCTS, -1); return 0; }
int cublasLtMatmulDescSetAttribute(void *what, int which, const void *value, size_t bytes) { FAILS; (void)what; return which == 3 && bytes == 4 && *(const int *)value == 1 ? 0 : 7; }
int cublasLtMatrixLayoutCreate(void **layout, int type, uint64_t rows, uint64_t columns, int64_t stride) {
    FAILS;
    struct layout *one = malloc(sizeof *one);
    *one = (struct layout){type, rows, columns, stride};
    *layout = one;
    made(PRODUCTS, 1);
    return 0;
}
int cublasLtMatrixLayoutDestroy(void *layout) { free(layout); made(PRODUCTS, -1); return 0; }
static void multiply(const struct layout *first, const void *a, const struct layout *second, const void *b,
                     const struct layout *result, void *d) {
    for (uint64_t column = 0; column < result->columns; column++)
        for (uint64_t row = 0; row < result->rows; row++) {
            double sum = 0;
            for (uint64_t step = 0; step < first->rows; step++)
                sum += number(first->type, a, row * first->stride + step) * number(second->type, b, column * second->stride + step);
            if (fact("HWDYNO_FAKE_WRONG", 0)) sum += 1;
            store(result->type, d, column * result->stride + row, sum);
        }
}
int cublasLtMatmul(void *library, void *what, const void *alpha, const void *a, void *of_a, const void *b, void *of_b,
                   const void *beta, const void *c, void *of_c, void *d, void *of_d, const void *algorithm, void *room,
                   size_t bytes, void *stream) {
    FAILS;
    (void)library, (void)what, (void)alpha, (void)beta, (void)c, (void)of_c, (void)algorithm, (void)room, (void)bytes, (void)stream;
    multiply(of_a, a, of_b, b, of_d, d);
    return 0;
}

/* libcublas: the same with one call */
int cublasCreate_v2(void **library) { FAILS; *library = malloc(1); made(PRODUCTS, 1); return 0; }
int cublasDestroy_v2(void *library) { free(library); made(PRODUCTS, -1); return 0; }
int cublasGetVersion_v2(void *library, int *version) { (void)library; *version = 120804; return 0; }
int cublasSetStream_v2(void *library, void *stream) { FAILS; (void)library; return stream ? 0 : 7; }
int cublasGemmEx(void *library, int of_first, int of_second, int m, int n, int k, const void *alpha, const void *a, int type_a,
                 int stride_a, const void *b, int type_b, int stride_b, const void *beta, void *c, int type_c, int stride_c,
                 int sums, int algorithm) {
    FAILS;
    (void)library, (void)alpha, (void)beta;
    if (of_first != 1 || of_second != 0 || algorithm != -1 || type_a == 28) return 15;
    if (sums != (type_a == 1 ? 70 : type_a == 3 ? 72 : type_a == 0 ? 77 : 68)) return 7;
    struct layout first = {type_a, k, m, stride_a}, second = {type_b, k, n, stride_b}, result = {type_c, m, n, stride_c};
    multiply(&first, a, &second, b, &result, c);
    return 0;
}
