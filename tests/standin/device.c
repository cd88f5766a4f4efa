/* What a program asks of its cards, and errors. */
#include "standin.h"
#include "runtime.h"
#include <stdint.h>
#include <stdio.h>

enum { RUNTIME_VERSION = 13000, OLD_DRIVER = 11080 };
/* Limits of compute capability 8.0 (CUDA C++ Programming Guide, table of technical specifications). */
enum { THREADS = 1024, SHARED = 48 << 10, SHARED_OPTIN = 163 << 10, SHARED_SM = 164 << 10, REGISTERS = 65536, MULTIPROCESSORS = 108, THREADS_SM = 2048, BLOCKS_SM = 32 };

static int there(int card) { return card >= 0 && card < visible_cards(); }

API cudaGetDeviceCount(int *count)
{
    GATE(PLAIN);
    *count = visible_cards();
    if (*count) return cudaSuccess;
    return failed(settings()->driver == DRIVER_OK ? cudaErrorNoDevice : cudaErrorInsufficientDriver);
}
API cudaGetDevice(int *card) { GATE(PLAIN); *card = current_card(); return cudaSuccess; }
API cudaSetDevice(int card)
{
    if (!there(card)) return failed(visible_cards() ? cudaErrorInvalidDevice : cudaErrorNoDevice);
    set_current_card(card);
    /* Since CUDA 12 this makes the context. */
    GATE(CONTEXT);
    return cudaSuccess;
}
API cudaDriverGetVersion(int *version)
{
    GATE(PLAIN);
    *version = settings()->driver == DRIVER_ABSENT ? 0 : settings()->driver == DRIVER_OLD ? OLD_DRIVER : RUNTIME_VERSION;
    return cudaSuccess;
}
API cudaRuntimeGetVersion(int *version) { GATE(PLAIN); *version = RUNTIME_VERSION; return cudaSuccess; }

API cudaGetDeviceProperties(struct cudaDeviceProp *out, int card)
{
    GATE(PLAIN);
    if (!there(card)) return failed(cudaErrorInvalidDevice);
    *out = (struct cudaDeviceProp){
        .name = "Stand-in", .totalGlobalMem = settings()->memory, .major = settings()->major, .minor = settings()->minor,
        .pciBusID = 1 + machine_card(card), .multiProcessorCount = MULTIPROCESSORS, .warpSize = 32, .ECCEnabled = 1,
        .maxThreadsPerBlock = THREADS, .maxThreadsDim = {THREADS, THREADS, 64}, .maxGridSize = {INT32_MAX, 65535, 65535},
        .maxThreadsPerMultiProcessor = THREADS_SM, .maxBlocksPerMultiProcessor = BLOCKS_SM,
        .sharedMemPerBlock = SHARED, .sharedMemPerBlockOptin = SHARED_OPTIN, .sharedMemPerMultiprocessor = SHARED_SM, .reservedSharedMemPerBlock = 1024,
        .regsPerBlock = REGISTERS, .regsPerMultiprocessor = REGISTERS, .totalConstMem = 65536, .memPitch = INT32_MAX,
        .textureAlignment = 512, .texturePitchAlignment = 32, .surfaceAlignment = 512, .memoryBusWidth = 5120, .l2CacheSize = 40 << 20,
        .concurrentKernels = 1, .unifiedAddressing = 1, .canMapHostMemory = 1, .streamPrioritiesSupported = 1, .cooperativeLaunch = 1,
        .asyncEngineCount = 3, .hostRegisterSupported = 1, .memoryPoolsSupported = 1, .computePreemptionSupported = 1,
    };
    settings_uuid(machine_card(card), (unsigned char *)out->uuid.bytes);
    return cudaSuccess;
}

static int attribute(enum cudaDeviceAttr which, int card)
{
    switch ((int)which) {
    case cudaDevAttrComputeCapabilityMajor: return settings()->major;
    case cudaDevAttrComputeCapabilityMinor: return settings()->minor;
    case cudaDevAttrPciBusId: return 1 + machine_card(card);
    case cudaDevAttrMultiProcessorCount: return MULTIPROCESSORS;
    case cudaDevAttrWarpSize: return 32;
    case cudaDevAttrMaxThreadsPerBlock: case cudaDevAttrMaxBlockDimX: case cudaDevAttrMaxBlockDimY: return THREADS;
    case cudaDevAttrMaxBlockDimZ: return 64;
    case cudaDevAttrMaxGridDimX: case cudaDevAttrMaxPitch: return INT32_MAX;
    case cudaDevAttrMaxGridDimY: case cudaDevAttrMaxGridDimZ: return 65535;
    case cudaDevAttrMaxThreadsPerMultiProcessor: return THREADS_SM;
    case cudaDevAttrMaxBlocksPerMultiprocessor: return BLOCKS_SM;
    case cudaDevAttrMaxSharedMemoryPerBlock: return SHARED;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: return SHARED_OPTIN;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: return SHARED_SM;
    case cudaDevAttrReservedSharedMemoryPerBlock: return 1024;
    case cudaDevAttrMaxRegistersPerBlock: case cudaDevAttrMaxRegistersPerMultiprocessor: return REGISTERS;
    case cudaDevAttrTotalConstantMemory: return 65536;
    case cudaDevAttrTextureAlignment: return 512;
    case cudaDevAttrClockRate: return 1410000;
    case cudaDevAttrMemoryClockRate: return 1215000;
    case cudaDevAttrGlobalMemoryBusWidth: return 5120;
    case cudaDevAttrL2CacheSize: return 40 << 20;
    case cudaDevAttrAsyncEngineCount: return 3;
    case cudaDevAttrConcurrentKernels: case cudaDevAttrUnifiedAddressing: case cudaDevAttrCanMapHostMemory: case cudaDevAttrCooperativeLaunch:
    case cudaDevAttrStreamPrioritiesSupported: case cudaDevAttrHostRegisterSupported: case cudaDevAttrMemoryPoolsSupported: case cudaDevAttrEccEnabled:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED: case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED: return 1;
    default: return 0;
    }
}
API cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr which, int card)
{
    GATE(PLAIN);
    if (!there(card)) return failed(cudaErrorInvalidDevice);
    *value = attribute(which, card);
    return cudaSuccess;
}
/* The driver's numbers of attributes are the runtime's. */
DRIVER cuDeviceGetAttribute(int *value, CUdevice_attribute which, CUdevice card)
{
    DRIVER_GATE(PLAIN);
    *value = attribute((enum cudaDeviceAttr)which, card);
    return CUDA_SUCCESS;
}
API cudaDeviceGetPCIBusId(char *out, int length, int card) { GATE(PLAIN); snprintf(out, (size_t)length, "0000:%02x:00.0", 1 + machine_card(card)); return cudaSuccess; }
API cudaDeviceCanAccessPeer(int *can, int card, int peer) { GATE(PLAIN); *can = 0; return cudaSuccess; }
API cudaDeviceEnablePeerAccess(int peer, unsigned flags) { GATE(PLAIN); return failed(cudaErrorPeerAccessUnsupported); }
API cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    GATE(CONTEXT);
    if (least) *least = 0;
    if (greatest) *greatest = -5;
    return cudaSuccess;
}
API cudaDeviceSynchronize(void) { GATE(WAITS); return cudaSuccess; }
API cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int card) { GATE(CONTEXT); static int only; *pool = (cudaMemPool_t)&only; return cudaSuccess; }
API cudaMemPoolGetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr which, void *value) { GATE(CONTEXT); *(uint64_t *)value = 0; return cudaSuccess; }
API cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr which, void *value) { GATE(CONTEXT); return cudaSuccess; }
API cudaMemPoolSetAccess(cudaMemPool_t pool, const struct cudaMemAccessDesc *list, size_t count) { GATE(CONTEXT); return cudaSuccess; }
API cudaMemPoolTrimTo(cudaMemPool_t pool, size_t bytes) { GATE(CONTEXT); return cudaSuccess; }
API cudaProfilerStart(void) { GATE(CONTEXT); return cudaSuccess; }
API cudaProfilerStop(void) { GATE(CONTEXT); return cudaSuccess; }

EXPORT const char *cudaGetErrorName(cudaError_t code) { return error_name((int)code); }
EXPORT const char *cudaGetErrorString(cudaError_t code) { return error_text((int)code); }
API cudaPeekAtLastError(void) { return (cudaError_t)last_error(0); }
API cudaGetLastError(void) { return (cudaError_t)last_error(1); }
