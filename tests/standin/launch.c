/* Kernels: libtorch's libraries register theirs as they are loaded; a launch checks what a launch checks, and computes nothing. */
#include "standin.h"
#include "runtime.h"
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* A function of the host that stands for a kernel, or a variable that stands for one on the card. */
struct entry { const void *host; const char *name; size_t size; void *device; int shared; };

/* By address, open addressing; its size is a power of two. Tens of thousands of kernels are entered at load. */
static struct entry *table;
static size_t room, count;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static struct entry *place(const void *host)
{
    /* Fibonacci hashing: the upper bits of a product with 2^64 divided by the golden ratio. */
    size_t at = (size_t)(((uintptr_t)host * 0x9E3779B97F4A7C15u) >> 20);
    while (table[at & (room - 1)].host && table[at & (room - 1)].host != host) at++;
    return &table[at & (room - 1)];
}
static struct entry *entry_of(const void *host)
{
    struct entry *found = room ? place(host) : NULL;
    return found && found->host ? found : NULL;
}
static void grow(void)
{
    struct entry *old = table;
    size_t size = room;
    room = room ? room * 2 : 1 << 16;
    if (!(table = calloc(room, sizeof *table))) abort();
    for (size_t i = 0; i < size; i++)
        if (old[i].host) *place(old[i].host) = old[i];
    free(old);
}
static void enter(const void *host, const char *name, size_t size)
{
    pthread_mutex_lock(&mutex);
    if (count * 2 >= room) grow();
    *place(host) = (struct entry){.host = host, .name = name, .size = size};
    count++;
    pthread_mutex_unlock(&mutex);
}

EXPORT void **__cudaRegisterFatBinary(void *binary) { return calloc(1, sizeof(void *)); }
EXPORT void __cudaRegisterFatBinaryEnd(void **handle) {}
EXPORT void __cudaUnregisterFatBinary(void **handle) {}
EXPORT char __cudaInitModule(void **handle) { return 1; }
EXPORT void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int limit, uint3 *thread, uint3 *block, dim3 *blocks, dim3 *grid, int *warp)
{
    enter(host, name, 0);
}
EXPORT void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int external, size_t size, int constant, int global) { enter(host, name, size); }

static __thread struct { dim3 grid, block; size_t shared; void *stream; } configured;
EXPORT unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *stream)
{
    configured.grid = grid, configured.block = block, configured.shared = shared, configured.stream = stream;
    return 0;
}
API __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream)
{
    *grid = configured.grid, *block = configured.block, *shared = configured.shared, *(void **)stream = configured.stream;
    return cudaSuccess;
}

static cudaError_t launch(const void *function, dim3 grid, dim3 block)
{
    struct entry *entry = entry_of(function);
    if (!entry) return failed(cudaErrorInvalidDeviceFunction);
    int empty = !grid.x || !grid.y || !grid.z || !block.x || !block.y || !block.z;
    if (empty || block.x * block.y * block.z > 1024 || grid.y > 65535 || grid.z > 65535) return failed(cudaErrorInvalidConfiguration);
    return gate("launch", CONTEXT, entry->name);
}
API __cudaGetKernel(cudaKernel_t *out, const void *function) { *out = (cudaKernel_t)function; return cudaSuccess; }
API __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments, size_t shared, cudaStream_t stream) { return launch(kernel, grid, block); }
API cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments, size_t shared, cudaStream_t stream) { return launch(function, grid, block); }
API cudaLaunchCooperativeKernel(const void *function, dim3 grid, dim3 block, void **arguments, size_t shared, cudaStream_t stream) { return launch(function, grid, block); }
API cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *function, void **arguments) { return launch(function, config->gridDim, config->blockDim); }

API cudaFuncGetAttributes(struct cudaFuncAttributes *out, const void *function)
{
    GATE(CONTEXT);
    struct entry *entry = entry_of(function);
    if (!entry) return failed(cudaErrorInvalidDeviceFunction);
    *out = (struct cudaFuncAttributes){
        .maxThreadsPerBlock = 1024, .numRegs = 32, .ptxVersion = 80, .binaryVersion = 80, .preferredShmemCarveout = -1,
        .maxDynamicSharedSizeBytes = entry->shared ? entry->shared : 48 << 10,
    };
    return cudaSuccess;
}
API cudaFuncSetAttribute(const void *function, enum cudaFuncAttribute which, int value)
{
    GATE(CONTEXT);
    struct entry *entry = entry_of(function);
    if (!entry) return failed(cudaErrorInvalidDeviceFunction);
    if (which != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
    if (value > 163 << 10) return failed(cudaErrorInvalidValue);
    entry->shared = value;
    return cudaSuccess;
}
static int blocks_of(int threads)
{
    int fit = threads > 0 ? 2048 / threads : 1;
    return fit > 32 ? 32 : fit < 1 ? 1 : fit;
}
API cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *out, const void *function, int threads, size_t shared) { GATE(CONTEXT); *out = blocks_of(threads); return cudaSuccess; }
API cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *out, const void *function, int threads, size_t shared, unsigned flags)
{
    GATE(CONTEXT);
    *out = blocks_of(threads);
    return cudaSuccess;
}
API cudaGetSymbolAddress(void **out, const void *symbol)
{
    GATE(CONTEXT);
    struct entry *entry = entry_of(symbol);
    if (!entry || !entry->size) return failed(cudaErrorInvalidSymbol);
    int code = entry->device ? cudaSuccess : memory_allocate(&entry->device, entry->size);
    *out = entry->device;
    return failed(code);
}
API cudaMemcpyToSymbol(const void *symbol, const void *from, size_t bytes, size_t offset, enum cudaMemcpyKind kind)
{
    void *to;
    cudaError_t code = cudaGetSymbolAddress(&to, symbol);
    return code ? code : (cudaError_t)failed(memory_copy((char *)to + offset, from, bytes));
}
