/* Device memory: pages of the host, charged to the card. */
#define _GNU_SOURCE
#include "standin.h"
#include "runtime.h"
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum kind { DEVICE, MAPPED, PINNED, REGISTERED };
struct block { uintptr_t at; size_t size; enum kind kind; int card; };

/* By address; no two overlap. */
static struct block *blocks;
static size_t count, room;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static size_t rounded(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

/* The index of the first block that begins behind the address. */
static size_t behind(uintptr_t address)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (blocks[middle].at > address) high = middle;
        else low = middle + 1;
    }
    return low;
}
static struct block *holding(uintptr_t address)
{
    size_t i = behind(address);
    return i && address - blocks[i - 1].at < blocks[i - 1].size ? &blocks[i - 1] : NULL;
}
static void insert(struct block block)
{
    if (count == room) blocks = realloc(blocks, (room = room * 2 + 64) * sizeof *blocks);
    if (!blocks) abort();
    size_t i = behind(block.at);
    memmove(blocks + i + 1, blocks + i, (count++ - i) * sizeof *blocks);
    blocks[i] = block;
}
static void erase(struct block *block)
{
    memmove(block, block + 1, (size_t)(blocks + --count - block) * sizeof *block);
}

/* Takes out the block of this kind that begins here; 0 if there is none. */
static int take(void *at, enum kind kind, struct block *taken)
{
    pthread_mutex_lock(&mutex);
    struct block *block = holding((uintptr_t)at);
    int found = block && block->at == (uintptr_t)at && block->kind == kind;
    if (found) {
        *taken = *block;
        erase(block);
    }
    pthread_mutex_unlock(&mutex);
    return found;
}
static void add(void *at, size_t size, enum kind kind)
{
    pthread_mutex_lock(&mutex);
    insert((struct block){(uintptr_t)at, size, kind, current_card()});
    pthread_mutex_unlock(&mutex);
}

void *memory_pages(size_t bytes, size_t align, int protection)
{
    char *from = mmap(NULL, bytes + align, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (from == MAP_FAILED) return NULL;
    char *at = (char *)rounded((uintptr_t)from, align);
    if (at > from) munmap(from, (size_t)(at - from));
    munmap(at + bytes, (size_t)(from + align - at));
    return at;
}

/* ---- Allocations ------------------------------------------------------------------------------------------------ */

int memory_allocate(void **out, size_t bytes)
{
    if (!out) return cudaErrorInvalidValue;
    *out = NULL;
    if (!bytes) return cudaSuccess;
    int card = machine_card(current_card());
    size_t pieces = account_join()->card[card].pieces, size = rounded(bytes, bytes >= UNIT / 2 ? UNIT : 4096);
    if (pieces && size > pieces) {
        standin_log("out of memory: no piece of %zu on card %d", size, card);
        return cudaErrorMemoryAllocation;
    }
    if (!account_charge(card, size)) return cudaErrorMemoryAllocation;
    if (!(*out = memory_pages(size, UNIT, PROT_READ | PROT_WRITE))) {
        account_release(card, size);
        return cudaErrorMemoryAllocation;
    }
    add(*out, size, DEVICE);
    return cudaSuccess;
}

int memory_release(void *at)
{
    struct block block;
    if (!at) return cudaSuccess;
    if (!take(at, DEVICE, &block)) return cudaErrorInvalidValue;
    munmap(at, block.size);
    account_release(machine_card(block.card), block.size);
    return cudaSuccess;
}

void memory_mapped(void *at, size_t bytes, int card)
{
    pthread_mutex_lock(&mutex);
    insert((struct block){(uintptr_t)at, bytes, MAPPED, card});
    pthread_mutex_unlock(&mutex);
}

int memory_unmapped(void *at, size_t bytes)
{
    uintptr_t from = (uintptr_t)at, to = from + bytes;
    pthread_mutex_lock(&mutex);
    for (struct block *block; from < to; ) {
        block = holding(from);
        if (!block || block->kind != MAPPED || block->at != from || from + block->size > to) break;
        from += block->size;
        erase(block);
    }
    pthread_mutex_unlock(&mutex);
    return from == to;
}

API cudaMalloc(void **out, size_t bytes) { GATE(CONTEXT); return failed(memory_allocate(out, bytes)); }
API cudaFree(void *at) { GATE(WAITS); return failed(memory_release(at)); }
API cudaMallocAsync(void **out, size_t bytes, cudaStream_t stream) { GATE(CONTEXT); return failed(memory_allocate(out, bytes)); }
API cudaFreeAsync(void *at, cudaStream_t stream) { GATE(CONTEXT); return failed(memory_release(at)); }

API cudaMemGetInfo(size_t *left, size_t *all)
{
    GATE(CONTEXT);
    size_t used = account_used(machine_card(current_card()));
    *all = settings()->memory;
    *left = used < *all ? *all - used : 0;
    return cudaSuccess;
}

API cudaHostAlloc(void **out, size_t bytes, unsigned flags)
{
    GATE(CONTEXT);
    size_t size = rounded(bytes ? bytes : 1, 4096);
    /* Pages that are pinned have to be there, ours only once they are used. */
    if (size / 4096 > (size_t)sysconf(_SC_PHYS_PAGES)) return failed(cudaErrorMemoryAllocation);
    if (!(*out = memory_pages(size, 4096, PROT_READ | PROT_WRITE))) return failed(cudaErrorMemoryAllocation);
    add(*out, size, PINNED);
    return cudaSuccess;
}
API cudaFreeHost(void *at)
{
    struct block block;
    GATE(CONTEXT);
    if (!at) return cudaSuccess;
    if (!take(at, PINNED, &block)) return failed(cudaErrorInvalidValue);
    munmap(at, block.size);
    return cudaSuccess;
}
API cudaHostRegister(void *at, size_t bytes, unsigned flags)
{
    GATE(CONTEXT);
    pthread_mutex_lock(&mutex);
    int there = holding((uintptr_t)at) != NULL;
    if (!there) insert((struct block){(uintptr_t)at, bytes, REGISTERED, current_card()});
    pthread_mutex_unlock(&mutex);
    return failed(there ? cudaErrorHostMemoryAlreadyRegistered : cudaSuccess);
}
API cudaHostUnregister(void *at)
{
    struct block block;
    GATE(CONTEXT);
    return failed(take(at, REGISTERED, &block) ? cudaSuccess : cudaErrorHostMemoryNotRegistered);
}
API cudaPointerGetAttributes(struct cudaPointerAttributes *out, const void *at)
{
    GATE(CONTEXT);
    *out = (struct cudaPointerAttributes){.type = cudaMemoryTypeUnregistered, .device = -2};
    pthread_mutex_lock(&mutex);
    struct block *block = holding((uintptr_t)at);
    if (block) {
        int host = block->kind == PINNED || block->kind == REGISTERED;
        *out = (struct cudaPointerAttributes){
            .type = host ? cudaMemoryTypeHost : cudaMemoryTypeDevice, .device = block->card,
            .devicePointer = (void *)at, .hostPointer = host ? (void *)at : NULL,
        };
    }
    pthread_mutex_unlock(&mutex);
    return cudaSuccess;
}

/* ---- Copies ------------------------------------------------------------------------------------------------------ */

/* Whether these bytes are the host's, or all of them device memory that is there. */
static int readable(uintptr_t from, size_t bytes)
{
    int whole = from != 0;
    pthread_mutex_lock(&mutex);
    uintptr_t at = from;
    for (struct block *block; whole && at < from + bytes && (block = holding(at)); at = block->at + block->size)
        if (block->kind == DEVICE && from + bytes > block->at + block->size) whole = 0;
    pthread_mutex_unlock(&mutex);
    return whole;
}
int memory_copy(void *to, const void *from, size_t bytes)
{
    if (!bytes) return cudaSuccess;
    if (!readable((uintptr_t)to, bytes) || !readable((uintptr_t)from, bytes)) return cudaErrorInvalidValue;
    memmove(to, from, bytes);
    return cudaSuccess;
}
int memory_fill(void *at, int value, size_t bytes)
{
    if (!bytes) return cudaSuccess;
    if (!readable((uintptr_t)at, bytes)) return cudaErrorInvalidValue;
    memset(at, value, bytes);
    return cudaSuccess;
}

void memory_flip(size_t offset)
{
    struct block *largest = NULL;
    pthread_mutex_lock(&mutex);
    for (size_t i = 0; i < count; i++)
        if (blocks[i].kind == DEVICE && (!largest || blocks[i].size > largest->size)) largest = &blocks[i];
    if (largest) *(unsigned char *)(largest->at + offset % largest->size) ^= 1 << 3;
    pthread_mutex_unlock(&mutex);
}

/* A copy to the host is the one that a program waits for. */
static int waits(enum cudaMemcpyKind kind) { return kind == cudaMemcpyDeviceToHost ? WAITS : CONTEXT; }

API cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) { GATE(WAITS); return failed(memory_copy(to, from, bytes)); }
API cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    GATE(waits(kind));
    return failed(memory_copy(to, from, bytes));
}
API cudaMemcpyPeerAsync(void *to, int to_card, const void *from, int from_card, size_t bytes, cudaStream_t stream)
{
    GATE(CONTEXT);
    return failed(memory_copy(to, from, bytes));
}
API cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    GATE(waits(kind));
    int code = cudaSuccess;
    for (size_t row = 0; row < height && !code; row++)
        code = memory_copy((char *)to + row * to_pitch, (const char *)from + row * from_pitch, width);
    return failed(code);
}
API cudaMemset(void *at, int value, size_t bytes) { GATE(CONTEXT); return failed(memory_fill(at, value, bytes)); }
API cudaMemsetAsync(void *at, int value, size_t bytes, cudaStream_t stream) { GATE(CONTEXT); return failed(memory_fill(at, value, bytes)); }
