/* Streams and events. Work is done on the thread that asks for it, so that a stream never has anything left to do. */
#include "standin.h"
#include "runtime.h"
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

struct CUstream_st { int priority; };
struct CUevent_st { struct timespec at; int recorded; };

static cudaError_t new_stream(cudaStream_t *out, int priority)
{
    if (!(*out = calloc(1, sizeof **out))) return cudaErrorMemoryAllocation;
    (*out)->priority = priority;
    return cudaSuccess;
}
static cudaError_t new_event(cudaEvent_t *out) { return (*out = calloc(1, sizeof **out)) ? cudaSuccess : cudaErrorMemoryAllocation; }
static cudaError_t record(cudaEvent_t event)
{
    clock_gettime(CLOCK_MONOTONIC, &event->at);
    event->recorded = 1;
    return cudaSuccess;
}

API cudaStreamCreate(cudaStream_t *out) { GATE(CONTEXT); return new_stream(out, 0); }
API cudaStreamCreateWithPriority(cudaStream_t *out, unsigned flags, int priority) { GATE(CONTEXT); return new_stream(out, priority); }
API cudaStreamDestroy(cudaStream_t stream) { GATE(CONTEXT); free(stream); return cudaSuccess; }
/* 0, 1 and 2 are the default streams (cudaStreamLegacy, cudaStreamPerThread), which are nowhere. */
API cudaStreamGetPriority(cudaStream_t stream, int *priority) { GATE(CONTEXT); *priority = (uintptr_t)stream > 2 ? stream->priority : 0; return cudaSuccess; }
API cudaStreamSynchronize(cudaStream_t stream) { GATE(WAITS); return cudaSuccess; }
API cudaStreamQuery(cudaStream_t stream) { if (card_spins()) return cudaErrorNotReady; GATE(WAITS); return cudaSuccess; }
API cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) { GATE(CONTEXT); return cudaSuccess; }
API cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t call, void *user, unsigned flags) { GATE(CONTEXT); call(stream, cudaSuccess, user); return cudaSuccess; }
API cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t call, void *user) { GATE(CONTEXT); call(user); return cudaSuccess; }
API cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status) { GATE(CONTEXT); *status = cudaStreamCaptureStatusNone; return cudaSuccess; }
API cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id, cudaGraph_t *graph,
                             const cudaGraphNode_t **nodes, const cudaGraphEdgeData **edges, size_t *count)
{
    GATE(CONTEXT);
    *status = cudaStreamCaptureStatusNone;
    if (id) *id = 0;
    return cudaSuccess;
}
API cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
    static __thread enum cudaStreamCaptureMode now;
    enum cudaStreamCaptureMode before = now;
    now = *mode;
    *mode = before;
    return cudaSuccess;
}

API cudaEventCreate(cudaEvent_t *out) { GATE(CONTEXT); return new_event(out); }
API cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags) { GATE(CONTEXT); return new_event(out); }
API cudaEventDestroy(cudaEvent_t event) { GATE(CONTEXT); free(event); return cudaSuccess; }
API cudaEventRecord(cudaEvent_t event, cudaStream_t stream) { GATE(CONTEXT); return record(event); }
API cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) { GATE(CONTEXT); return record(event); }
API cudaEventQuery(cudaEvent_t event) { if (card_spins()) return cudaErrorNotReady; GATE(WAITS); return cudaSuccess; }
API cudaEventSynchronize(cudaEvent_t event) { GATE(WAITS); return cudaSuccess; }
API cudaEventElapsedTime(float *milliseconds, cudaEvent_t from, cudaEvent_t to)
{
    GATE(CONTEXT);
    if (!from->recorded || !to->recorded) return failed(cudaErrorInvalidResourceHandle);
    *milliseconds = (float)(to->at.tv_sec - from->at.tv_sec) * 1e3f + (float)(to->at.tv_nsec - from->at.tv_nsec) / 1e6f;
    return cudaSuccess;
}
