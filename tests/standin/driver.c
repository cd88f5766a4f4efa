/* The driver's functions that libtorch (expandable segments) and a program that launches through the driver ask for,
 * and what there is not. */
#define _GNU_SOURCE
#include "standin.h"
#include "runtime.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

DRIVER cuInit(unsigned flags) { DRIVER_GATE(PLAIN); return visible_cards() ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE; }
DRIVER cuDriverGetVersion(int *version) { return (CUresult)cudaDriverGetVersion(version); }
DRIVER cuDeviceGetCount(int *count) { DRIVER_GATE(PLAIN); *count = visible_cards(); return CUDA_SUCCESS; }
DRIVER cuDeviceGet(CUdevice *out, int card)
{
    DRIVER_GATE(PLAIN);
    if (card < 0 || card >= visible_cards()) return CUDA_ERROR_INVALID_DEVICE;
    *out = card;
    return CUDA_SUCCESS;
}
DRIVER cuGetErrorString(CUresult code, const char **out) { *out = error_text((int)code); return CUDA_SUCCESS; }

/* A context is its card. */
static struct CUctx_st { int unused; } contexts[CARDS];
DRIVER cuCtxGetCurrent(CUcontext *out) { DRIVER_GATE(PLAIN); *out = has_context(current_card()) ? &contexts[current_card()] : NULL; return CUDA_SUCCESS; }
DRIVER cuCtxSetCurrent(CUcontext context) { DRIVER_GATE(PLAIN); if (context) set_current_card((int)(context - contexts)); return CUDA_SUCCESS; }
DRIVER cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice card) { DRIVER_GATE(CONTEXT); *out = &contexts[card]; return CUDA_SUCCESS; }
DRIVER cuDevicePrimaryCtxGetState(CUdevice card, unsigned *flags, int *active) { DRIVER_GATE(PLAIN); *flags = 0; *active = has_context(card); return CUDA_SUCCESS; }

DRIVER cuMemAlloc_v2(CUdeviceptr *out, size_t bytes) { DRIVER_GATE(CONTEXT); return (CUresult)memory_allocate((void **)out, bytes); }
DRIVER cuMemFree_v2(CUdeviceptr at) { DRIVER_GATE(WAITS); return (CUresult)memory_release((void *)at); }
DRIVER cuMemsetD8_v2(CUdeviceptr at, unsigned char value, size_t bytes) { DRIVER_GATE(CONTEXT); return (CUresult)memory_fill((void *)at, value, bytes); }
DRIVER cuMemsetD32Async(CUdeviceptr at, unsigned value, size_t count, CUstream stream)
{
    DRIVER_GATE(CONTEXT);
    for (size_t i = 0; i < count; i++) ((unsigned *)at)[i] = value;
    return CUDA_SUCCESS;
}
DRIVER cuStreamWriteValue32(CUstream stream, CUdeviceptr at, cuuint32_t value, unsigned flags) { DRIVER_GATE(CONTEXT); *(cuuint32_t *)at = value; return CUDA_SUCCESS; }

/* ---- Virtual memory management: addresses, physical memory, and a mapping of one to the other ---------------------- */

/* Physical memory. libtorch maps each piece once, so that it can live at the address alone. */
struct piece { size_t size; int card; };

DRIVER cuMemGetAllocationGranularity(size_t *out, const CUmemAllocationProp *of, CUmemAllocationGranularity_flags flags) { DRIVER_GATE(PLAIN); *out = UNIT; return CUDA_SUCCESS; }
DRIVER cuMemAddressReserve(CUdeviceptr *out, size_t bytes, size_t align, CUdeviceptr wish, unsigned long long flags)
{
    DRIVER_GATE(CONTEXT);
    void *at = memory_pages(bytes, align > UNIT ? align : UNIT, PROT_NONE);
    *out = (CUdeviceptr)at;
    return at ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
DRIVER cuMemAddressFree(CUdeviceptr at, size_t bytes) { DRIVER_GATE(CONTEXT); munmap((void *)at, bytes); return CUDA_SUCCESS; }
DRIVER cuMemCreate(CUmemGenericAllocationHandle *out, size_t bytes, const CUmemAllocationProp *of, unsigned long long flags)
{
    DRIVER_GATE(CONTEXT);
    if (of->requestedHandleTypes & CU_MEM_HANDLE_TYPE_FABRIC) return CUDA_ERROR_NOT_SUPPORTED;
    int card = of->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? of->location.id : current_card();
    struct piece *piece = malloc(sizeof *piece);
    if (!piece || !account_charge(machine_card(card), bytes)) {
        free(piece);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *piece = (struct piece){bytes, card};
    *out = (CUmemGenericAllocationHandle)(uintptr_t)piece;
    return CUDA_SUCCESS;
}
DRIVER cuMemRelease(CUmemGenericAllocationHandle handle)
{
    DRIVER_GATE(CONTEXT);
    struct piece *piece = (struct piece *)(uintptr_t)handle;
    account_release(machine_card(piece->card), piece->size);
    free(piece);
    return CUDA_SUCCESS;
}
/* Fresh pages that nobody may touch, in the place of what was there. */
static int untouchable(void *at, size_t bytes)
{
    return mmap(at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
}
DRIVER cuMemMap(CUdeviceptr at, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    DRIVER_GATE(CONTEXT);
    if (!untouchable((void *)at, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    memory_mapped((void *)at, bytes, ((struct piece *)(uintptr_t)handle)->card);
    return CUDA_SUCCESS;
}
DRIVER cuMemSetAccess(CUdeviceptr at, size_t bytes, const CUmemAccessDesc *list, size_t count)
{
    DRIVER_GATE(CONTEXT);
    return mprotect((void *)at, bytes, PROT_READ | PROT_WRITE) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
DRIVER cuMemUnmap(CUdeviceptr at, size_t bytes)
{
    DRIVER_GATE(CONTEXT);
    return memory_unmapped((void *)at, bytes) && untouchable((void *)at, bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- Kernels that a program loads itself: known by their names ------------------------------------------------------ */

struct CUfunc_st { char name[128]; };
DRIVER cuModuleLoadData(CUmodule *out, const void *image) { DRIVER_GATE(CONTEXT); *out = (CUmodule)image; return CUDA_SUCCESS; }
DRIVER cuModuleGetFunction(CUfunction *out, CUmodule module, const char *name)
{
    DRIVER_GATE(CONTEXT);
    if (!(*out = calloc(1, sizeof **out))) return CUDA_ERROR_OUT_OF_MEMORY;
    snprintf((*out)->name, sizeof (*out)->name, "%s", name);
    return CUDA_SUCCESS;
}
DRIVER cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, CUstream stream, void **arguments, void **extra)
{
    return (CUresult)gate("launch", CONTEXT, function->name);
}

/* ---- How libtorch finds them ------------------------------------------------------------------------------------------ */

#define NAMED(function) {#function, (void *)function}
static const struct { const char *name; void *function; } FUNCTIONS[] = {
    NAMED(cuCtxGetCurrent), NAMED(cuCtxSetCurrent), NAMED(cuDeviceGet), NAMED(cuDeviceGetAttribute), NAMED(cuDeviceGetCount), NAMED(cuDriverGetVersion),
    NAMED(cuGetErrorString), NAMED(cuInit), NAMED(cuMemAddressFree), NAMED(cuMemAddressReserve), NAMED(cuMemCreate), NAMED(cuMemGetAllocationGranularity),
    NAMED(cuMemMap), NAMED(cuMemRelease), NAMED(cuMemSetAccess), NAMED(cuMemUnmap), NAMED(cuMemsetD32Async), NAMED(cuStreamWriteValue32),
};
static CUresult missing(void)
{
    standin_log("not implemented: a function of the driver");
    return CUDA_ERROR_NOT_SUPPORTED;
}
API cudaGetDriverEntryPointByVersion(const char *name, void **out, unsigned version, unsigned long long flags, enum cudaDriverEntryPointQueryResult *status)
{
    GATE(PLAIN);
    *out = (void *)missing;
    for (size_t i = 0; i < sizeof FUNCTIONS / sizeof *FUNCTIONS; i++)
        if (!strcmp(FUNCTIONS[i].name, name)) *out = FUNCTIONS[i].function;
    if (status) *status = cudaDriverEntryPointSuccess;
    return cudaSuccess;
}

/* ---- What there is not: graphs, captures, memory shared between processes ------------------------------------------------ */

#define MISSING(name, ...) API name(__VA_ARGS__) { standin_log("not implemented: %s", __func__); return failed(cudaErrorNotSupported); }
MISSING(cudaStreamBeginCapture, cudaStream_t stream, enum cudaStreamCaptureMode mode)
MISSING(cudaStreamEndCapture, cudaStream_t stream, cudaGraph_t *graph)
MISSING(cudaGraphDebugDotPrint, cudaGraph_t graph, const char *path, unsigned flags)
MISSING(cudaGraphDestroy, cudaGraph_t graph)
MISSING(cudaGraphExecDestroy, cudaGraphExec_t graph)
MISSING(cudaGraphGetNodes, cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count)
MISSING(cudaGraphInstantiateWithFlags, cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags)
MISSING(cudaGraphLaunch, cudaGraphExec_t graph, cudaStream_t stream)
MISSING(cudaGraphNodeGetDependencies, cudaGraphNode_t node, cudaGraphNode_t *on, cudaGraphEdgeData *edges, size_t *count)
MISSING(cudaIpcCloseMemHandle, void *at)
MISSING(cudaIpcGetEventHandle, cudaIpcEventHandle_t *out, cudaEvent_t event)
MISSING(cudaIpcGetMemHandle, cudaIpcMemHandle_t *out, void *at)
MISSING(cudaIpcOpenEventHandle, cudaEvent_t *out, cudaIpcEventHandle_t handle)
MISSING(cudaIpcOpenMemHandle, void **out, cudaIpcMemHandle_t handle, unsigned flags)
