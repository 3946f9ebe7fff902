/* A driver of NVIDIA's with one GPU, for tests: its facts come from the environment, and it fails on demand.
 * HWDYNO_FAKE_FAIL="FUNCTION:STATUS" makes every call of a function return a status, and "FUNCTION:crash" crash. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static int failed(const char *name) {
    const char *plan = getenv("HWDYNO_FAKE_FAIL");
    size_t length = strlen(name);
    if (plan == NULL || strncmp(plan, name, length) != 0 || plan[length] != ':') return 0;
    if (strcmp(plan + length + 1, "crash") == 0) abort();
    return atoi(plan + length + 1);
}

static int fact(const char *name, int otherwise) {
    const char *given = getenv(name);
    return given == NULL ? otherwise : atoi(given);
}

#define FAILS int status = failed(__func__); if (status) return status

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
        case 13: *value = 1112000; return 0;
        case 16: *value = 24; return 0;
        case 36: *value = 3004000; return 0;
        case 37: *value = 384; return 0;
        case 38: *value = 3145728; return 0;
        case 39: *value = 2048; return 0;
        case 40: *value = 2; return 0;
        case 75: *value = 5; return 0;
        case 76: *value = 2; return 0;
        default: return 1;
    }
}

int nvmlInit_v2(void) { FAILS; return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlSystemGetDriverVersion(char *text, unsigned room) { FAILS; strncpy(text, "550.54.14", room); return 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **device) { FAILS; *device = (void *)id; return 0; }
#define NUMBER(name, value) int name(void *device, unsigned *into) { FAILS; (void)device; *into = (value); return 0; }
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, 1)
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, 8)
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, 3)
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, 16)
NUMBER(nvmlDeviceGetPowerUsage, 61500)
NUMBER(nvmlDeviceGetEnforcedPowerLimit, 250000)
int nvmlDeviceGetClockInfo(void *device, unsigned which, unsigned *into) { FAILS; (void)device; *into = which == 1 ? 949 : 3004; return 0; }
int nvmlDeviceGetMaxClockInfo(void *device, unsigned which, unsigned *into) { FAILS; (void)device; (void)which; *into = 1114; return 0; }
int nvmlDeviceGetTemperature(void *device, unsigned which, unsigned *into) { FAILS; (void)device; (void)which; *into = 41; return 0; }
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, uint64_t *into) { FAILS; (void)device; *into = 0x1 | 0x4 | 0x20; return 0; }
int nvmlDeviceGetEccMode(void *device, unsigned *now, unsigned *then) { FAILS; (void)device; *now = *then = 1; return 0; }
int nvmlDeviceGetMigMode(void *device, unsigned *now, unsigned *then) { FAILS; (void)device; (void)now; (void)then; return 3; }
