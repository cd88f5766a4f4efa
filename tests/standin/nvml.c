// A libnvidia-ml.so.1 without GPUs, for tests. What it says stands in the file that TUNE_NVML_SCRIPT
// names and that is read anew at each call, so that a test can change it while a run lasts. A line is
// a word, for most words the index of a GPU, and numbers:
//
//   init CODE            what nvmlInit_v2 answers (9: driver not loaded, 18: version mismatch)
//   gpus N               how many there are (default 1)
//   used GPU MIB...      memory in use; each sample takes the next number, the last one stays
//   process GPU PID MIB  a process and its memory; any number of lines
//   utilization GPU N, temperature GPU N, power GPU MILLIWATTS, clock GPU MHZ, throttle GPU BITS,
//   ecc GPU N, rows GPU N, recovery GPU ACTION
//   capability GPU MAJOR MINOR, persistence GPU N, powercap GPU MILLIWATTS DEFAULT, appclock GPU MHZ DEFAULT,
//   offsets GPU MHZ MEMORY_MHZ, slowdown GPU CELSIUS, eccmode GPU N, pending GPU N, remapfailed GPU N,
//   computemode GPU N, mig GPU N, pcie GPU GENERATION WIDTH MAX_GENERATION MAX_WIDTH,
//   replays GPU N...     each look takes the next number, the last one stays
//   lost GPU             every call about it answers that it is lost
//   mute GPU             it reports no events
//   xid GPU CODE         an event; each line is delivered once, in order
//   hang                 calls about memory never come back
//
// Built with -DLACKS_INIT it lacks nvmlInit_v2, with -DOLD what drivers before 510 lack.
//
// Beside the stand-in for the CUDA runtime (STANDIN_DIR) it says of memory, processes, lost cards, ECC errors and Xids
// what has happened there; a line of the script goes before it.

#define _GNU_SOURCE
#include "standin.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS = 0, INVALID = 2, NOT_SUPPORTED = 3, TOO_SMALL = 7, TIMEOUT = 10, IS_LOST = 15 };
enum { MIB = 1 << 20, MOST = 16, GPUS = 8 };

static char handles[GPUS];

// The values behind the `nth` line of this word and GPU (-1: the word has none); how many there are,
// or -1 without such a line.
static int find(const char *word, int gpu, int nth, long long *values) {
    const char *path = getenv("TUNE_NVML_SCRIPT");
    FILE *script = path ? fopen(path, "r") : NULL;
    char line[512];
    int found = -1;
    while (script && found < 0 && fgets(line, sizeof line, script)) {
        char *rest = line, *name = strsep(&rest, " \n");
        if (strcmp(name, word) != 0 || (gpu >= 0 && strtol(rest ? rest : "", &rest, 10) != gpu)) continue;
        if (nth-- > 0) continue;
        for (found = 0; rest && found < MOST; found++) {
            char *end;
            values[found] = strtoll(rest, &end, 10);
            if (end == rest) break;
            rest = end;
        }
    }
    if (script) fclose(script);
    return found;
}

static int number(const char *word, int gpu, long long *value) {
    long long values[MOST];
    if (find(word, gpu, 0, values) < 1) return NOT_SUPPORTED;
    *value = values[0];
    return SUCCESS;
}

static int gpu_of(void *device) { return (int)((char *)device - handles); }

// What is known of the card beside the script; NULL without a stand-in.
static const struct card *card_of(void *device) {
    const struct account *account = account_look();
    return account ? &account->card[gpu_of(device)] : NULL;
}

static int lost(void *device) {
    long long none[MOST];
    const struct card *card = card_of(device);
    return find("lost", gpu_of(device), 0, none) >= 0 || (card && card->lost);
}

static int ask(void *device, const char *word, unsigned *out) {
    long long value;
    if (lost(device)) return IS_LOST;
    int code = number(word, gpu_of(device), &value);
    if (code == SUCCESS) *out = (unsigned)value;
    return code;
}

#ifndef LACKS_INIT
int nvmlInit_v2(void) {
    // 9: the driver is not loaded.
    long long code = settings()->driver == DRIVER_ABSENT ? 9 : SUCCESS;
    number("init", -1, &code);
    return (int)code;
}
#endif

int nvmlShutdown(void) { return SUCCESS; }

int nvmlSystemGetDriverVersion(char *version, unsigned length) {
    snprintf(version, length, "580.65.06");
    return SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned *count) {
    long long value = settings()->cards;
    number("gpus", -1, &value);
    *count = (unsigned)value;
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    if (index >= GPUS) return INVALID;
    *device = &handles[index];
    return SUCCESS;
}

int nvmlDeviceGetIndex(void *device, unsigned *index) {
    *index = (unsigned)gpu_of(device);
    return lost(device) ? IS_LOST : SUCCESS;
}

int nvmlDeviceGetName(void *device, char *name, unsigned length) {
    snprintf(name, length, "Stub %d", gpu_of(device));
    return SUCCESS;
}

int nvmlDeviceGetUUID(void *device, char *uuid, unsigned length) {
    char own[41];
    settings_uuid_text(gpu_of(device), own);
    if (account_look()) snprintf(uuid, length, "%s", own);
    else snprintf(uuid, length, "GPU-%d", gpu_of(device));
    return SUCCESS;
}

// Processes of the account that use the card; at most `most` are written.
static unsigned users(int gpu, unsigned most, unsigned *pids, unsigned long long *bytes) {
    const struct account *account = account_look();
    unsigned found = 0;
    for (int i = 0; account && i < PROCESSES; i++) {
        if (!account->process[i].used[gpu] || !account_lives(account, i)) continue;
        if (found < most) {
            pids[found] = (unsigned)account->process[i].pid;
            bytes[found] = account->process[i].used[gpu];
        }
        found++;
    }
    return found;
}

static int memory(void *device, unsigned long long *total, unsigned long long *used) {
    static int calls[GPUS];
    long long values[MOST];
    while (find("hang", -1, 0, values) >= 0) pause();
    if (lost(device)) return IS_LOST;
    int gpu = gpu_of(device), count = find("used", gpu, 0, values);
    int at = calls[gpu]++;
    *total = settings()->memory;
    *used = count < 1 ? account_used(gpu) : (unsigned long long)values[at < count ? at : count - 1] * MIB;
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(void *device, unsigned long long out[3]) {
    unsigned long long total, used;
    int code = memory(device, &total, &used);
    if (code == SUCCESS) out[0] = total, out[1] = total - used, out[2] = used;
    return code;
}

#ifndef OLD
struct memory {
    unsigned version;
    unsigned long long total, reserved, free, used;
};

int nvmlDeviceGetMemoryInfo_v2(void *device, struct memory *out) {
    unsigned long long total, used;
    int code = memory(device, &total, &used);
    // The driver keeps a MiB for itself.
    if (code == SUCCESS) *out = (struct memory){out->version, total, MIB, total - used - MIB, used};
    return code;
}

struct running {
    unsigned pid;
    unsigned long long memory;
    unsigned gpu_instance, compute_instance;
};

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, struct running *out) {
    long long values[MOST];
    unsigned most = *count, found = 0;
    if (lost(device)) return IS_LOST;
    unsigned pids[PROCESSES], real;
    unsigned long long bytes[PROCESSES];
    for (real = users(gpu_of(device), PROCESSES, pids, bytes); found < real; found++) {
        if (out && found < most) out[found] = (struct running){pids[found], bytes[found], -1, -1};
    }
    for (; find("process", gpu_of(device), (int)(found - real), values) == 2; found++) {
        if (out && found < most) out[found] = (struct running){(unsigned)values[0], (unsigned long long)values[1] * MIB, -1, -1};
    }
    *count = found;
    return found > most ? TOO_SMALL : SUCCESS;
}

struct field {
    unsigned field, scope;
    long long time, latency;
    unsigned type, code;
    unsigned long long value;
};

static const char *field_word(unsigned field) {
    switch (field) {
    case 143: return "rows";
    case 144: return "pending";
    case 145: return "remapfailed";
    case 230: return "recovery";
    default: return "none";
    }
}

int nvmlDeviceGetFieldValues(void *device, int count, struct field *fields) {
    for (int i = 0; i < count; i++) {
        unsigned value = 0;
        fields[i].type = 1;
        fields[i].code = ask(device, field_word(fields[i].field), &value);
        fields[i].value = value;
    }
    return lost(device) ? IS_LOST : SUCCESS;
}

int nvmlDeviceGetTotalEccErrors(void *device, int type, int counter, unsigned long long *count) {
    const struct card *card = card_of(device);
    unsigned value = 0;
    int code = type == 1 && counter == 0 ? ask(device, "ecc", &value) : NOT_SUPPORTED;
    if (code == NOT_SUPPORTED && card && type == 1 && counter == 0) code = SUCCESS, value = card->ecc;
    *count = value;
    return code;
}

static int delivered;
static unsigned delivered_of[GPUS];

// The next Xid of a card of the account, from the card's last reset on: what a test sees must not depend on whether the
// probe or the worker was first.
static int xid_of_a_card(int *gpu, unsigned *xid) {
    const struct account *account = account_look();
    for (int i = 0; account && i < settings()->cards; i++) {
        if (delivered_of[i] >= account->card[i].xids) continue;
        *gpu = i;
        *xid = account->card[i].xid[delivered_of[i]++];
        return 1;
    }
    return 0;
}

int nvmlEventSetCreate(void **set) {
    *set = &delivered;
    return SUCCESS;
}

int nvmlEventSetFree(void *set) {
    (void)set;
    return SUCCESS;
}

int nvmlDeviceRegisterEvents(void *device, unsigned long long types, void *set) {
    long long none[MOST];
    (void)set;
    return types == 8 && find("mute", gpu_of(device), 0, none) < 0 ? SUCCESS : NOT_SUPPORTED;
}

struct event {
    void *device;
    unsigned long long type, data;
    unsigned gpu_instance, compute_instance;
};

int nvmlEventSetWait_v2(void *set, struct event *event, unsigned timeout) {
    long long values[MOST];
    (void)set;
    for (unsigned waited = 0; waited <= timeout; waited += 10) {
        if (find("xid", -1, delivered, values) == 2) {
            delivered++;
            *event = (struct event){&handles[values[0]], 8, (unsigned long long)values[1], -1, -1};
            return SUCCESS;
        }
        int gpu;
        unsigned xid;
        if (xid_of_a_card(&gpu, &xid)) {
            *event = (struct event){&handles[gpu], 8, xid, -1, -1};
            return SUCCESS;
        }
        usleep(10000);
    }
    return TIMEOUT;
}
#endif

int nvmlDeviceGetUtilizationRates(void *device, unsigned out[2]) { return ask(device, "utilization", out); }

// The temperature of a card of the account, which the script goes before.
static int celsius(void *device) {
    const struct account *account = account_look();
    return account && settings()->celsius ? account_celsius(account, gpu_of(device)) : 0;
}

int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *out) {
    int code = sensor == 0 ? ask(device, "temperature", out) : INVALID;
    if (code == NOT_SUPPORTED && celsius(device)) code = SUCCESS, *out = (unsigned)celsius(device);
    return code;
}

int nvmlDeviceGetPowerUsage(void *device, unsigned *out) { return ask(device, "power", out); }

int nvmlDeviceGetClockInfo(void *device, int clock, unsigned *out) {
    return clock == 1 ? ask(device, "clock", out) : INVALID;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *out) {
    unsigned value = 0;
    int code = ask(device, "throttle", &value);
    // 0x40: the hardware slows it down for heat.
    if (code == NOT_SUPPORTED && celsius(device)) code = SUCCESS, value = celsius(device) >= SLOWDOWN ? 0x40 : 0;
    *out = value;
    return code;
}

// What `tune probe --details` asks beside: the value at a place of a line.
static int at(void *device, const char *word, int place, int *out) {
    long long values[MOST];
    if (lost(device)) return IS_LOST;
    if (find(word, gpu_of(device), 0, values) <= place) return NOT_SUPPORTED;
    *out = (int)values[place];
    return SUCCESS;
}

int nvmlSystemGetNVMLVersion(char *version, unsigned length) {
    snprintf(version, length, "13.580.65.06");
    return SUCCESS;
}

int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor) {
    int code = at(device, "capability", 0, major);
    return code == SUCCESS ? at(device, "capability", 1, minor) : code;
}

int nvmlDeviceGetPersistenceMode(void *device, int *on) { return at(device, "persistence", 0, on); }

int nvmlDeviceGetPowerManagementLimit(void *device, int *out) { return at(device, "powercap", 0, out); }

int nvmlDeviceGetPowerManagementDefaultLimit(void *device, int *out) { return at(device, "powercap", 1, out); }

int nvmlDeviceGetApplicationsClock(void *device, int clock, int *out) {
    return clock == 1 ? at(device, "appclock", 0, out) : INVALID;
}

int nvmlDeviceGetDefaultApplicationsClock(void *device, int clock, int *out) {
    return clock == 1 ? at(device, "appclock", 1, out) : INVALID;
}

int nvmlDeviceGetGpcClkVfOffset(void *device, int *out) { return at(device, "offsets", 0, out); }

int nvmlDeviceGetMemClkVfOffset(void *device, int *out) { return at(device, "offsets", 1, out); }

int nvmlDeviceGetTemperatureThreshold(void *device, int kind, int *out) {
    if (kind != 1) return NOT_SUPPORTED;
    int code = at(device, "slowdown", 0, out);
    if (code == NOT_SUPPORTED && celsius(device)) code = SUCCESS, *out = SLOWDOWN;
    return code;
}

int nvmlDeviceGetEccMode(void *device, int *current, int *pending) {
    int code = at(device, "eccmode", 0, current);
    *pending = *current;
    return code;
}

int nvmlDeviceGetComputeMode(void *device, int *out) { return at(device, "computemode", 0, out); }

int nvmlDeviceGetMigMode(void *device, int *current, int *pending) {
    int code = at(device, "mig", 0, current);
    *pending = *current;
    return code;
}

int nvmlDeviceGetCurrPcieLinkGeneration(void *device, int *out) { return at(device, "pcie", 0, out); }

int nvmlDeviceGetCurrPcieLinkWidth(void *device, int *out) { return at(device, "pcie", 1, out); }

int nvmlDeviceGetMaxPcieLinkGeneration(void *device, int *out) { return at(device, "pcie", 2, out); }

int nvmlDeviceGetMaxPcieLinkWidth(void *device, int *out) { return at(device, "pcie", 3, out); }

int nvmlDeviceGetPcieReplayCounter(void *device, int *out) {
    static int looks[GPUS];
    int look = looks[gpu_of(device)]++;
    int code = at(device, "replays", look, out);
    while (code == NOT_SUPPORTED && look-- > 0) code = at(device, "replays", look, out);
    return code;
}

// What libtorch asks beside, for the text of an out-of-memory error.
int nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **device) {
    unsigned domain, bus;
    if (sscanf(id, "%x:%x:", &domain, &bus) != 2 || bus < 1 || bus > GPUS) return INVALID;
    *device = &handles[bus - 1];
    return SUCCESS;
}

int nvmlSystemGetCudaDriverVersion_v2(int *version) {
    *version = 13000;
    return SUCCESS;
}

struct process_v1 {
    unsigned pid;
    unsigned long long memory;
};

int nvmlDeviceGetComputeRunningProcesses(void *device, unsigned *count, struct process_v1 *out) {
    unsigned pids[PROCESSES], most = *count;
    unsigned long long bytes[PROCESSES];
    *count = users(gpu_of(device), PROCESSES, pids, bytes);
    for (unsigned i = 0; i < *count && i < most; i++) out[i] = (struct process_v1){pids[i], bytes[i]};
    return *count > most ? TOO_SMALL : SUCCESS;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(void *device, unsigned link, int *type) { return NOT_SUPPORTED; }

int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned link, void *info) { return NOT_SUPPORTED; }

int nvmlDeviceGetGpuFabricInfoV(void *device, void *info) { return NOT_SUPPORTED; }
