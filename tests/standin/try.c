/* Makes the calls that stand on its input, a line each, and prints what each answers: an error's number, and what
 * was asked for. `card N`, `count`, `malloc SIZE`, `free` (the last allocation), `reserve SIZE` (virtual memory),
 * `info`, `launch NAME`, `wait`, `query`, `peek`, `pinned SIZE`. Tests of the stand-in drive it. */
#include "standin.h"
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int call(const char *word, const char *value, char *answer)
{
    static void *last;
    CUmemAllocationProp of = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemGenericAllocationHandle handle;
    size_t left, all;
    int count = 0;
    cudaError_t code;
    if (!strcmp(word, "card")) return cudaSetDevice(atoi(value));
    if (!strcmp(word, "count")) { code = cudaGetDeviceCount(&count); sprintf(answer, " %d", count); return code; }
    if (!strcmp(word, "malloc")) return cudaMalloc(&last, settings_bytes(value));
    if (!strcmp(word, "free")) return cudaFree(last);
    if (!strcmp(word, "reserve")) return (int)cuMemCreate(&handle, settings_bytes(value), &of, 0);
    if (!strcmp(word, "info")) { code = cudaMemGetInfo(&left, &all); sprintf(answer, " %zu %zu", left >> 20, all >> 20); return code; }
    if (!strcmp(word, "launch")) return standin_launch(value);
    if (!strcmp(word, "wait")) return cudaDeviceSynchronize();
    if (!strcmp(word, "query")) return cudaStreamQuery(NULL);
    if (!strcmp(word, "peek")) return cudaGetLastError();
    if (!strcmp(word, "pinned")) return cudaHostAlloc(&last, settings_bytes(value), 0);
    return -1;
}

int main(void)
{
    char word[32], value[160], line[256];
    while (fgets(line, sizeof line, stdin)) {
        char answer[64] = "";
        *value = 0;
        if (sscanf(line, "%31s %159s", word, value) < 1) continue;
        int code = call(word, value, answer);
        printf("%d%s\n", code, answer);
        fflush(stdout);
    }
    return 0;
}
