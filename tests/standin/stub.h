/* Functions of the generated stub libraries. They take no arguments: a caller's are left where they are. */
#include "standin.h"
#include <stdint.h>
#include <string.h>

/* Written by hand. */
#define HAND(name, ...) EXPORT int name(__VA_ARGS__)
/* Does nothing, and says that it went well. */
#define FINE(name) EXPORT int name(void) { return 0; }
/* A pretended launch of its name. What fails in it is the status that cuBLAS has for it: 3 for want of memory
 * (CUBLAS_STATUS_ALLOC_FAILED), else 13 (CUBLAS_STATUS_EXECUTION_FAILED). */
#define LAUNCH(name) EXPORT int name(void) { int code = standin_launch(#name); return code >= STATUS ? code - STATUS : code == 2 ? 3 : code ? 13 : 0; }
/* cuDNN computes nothing; a rule says which of its statuses a function answers, otherwise 1001
 * (CUDNN_STATUS_NOT_INITIALIZED). */
#define ANSWERS(name) EXPORT int name(void) { int code = standin_launch(#name); return code >= STATUS ? code - STATUS : 1001; }
/* There is no such function. */
#define FAILS(name) EXPORT int name(void) { standin_log("not implemented: %s", #name); return 1; }
/* Some of the names that cuDNN's documentation gives to statuses. */
#define STATUSES(name) EXPORT const char *name(int status) { return status == 1001 ? "CUDNN_STATUS_NOT_INITIALIZED" : status == 4000 ? "CUDNN_STATUS_INTERNAL_ERROR" : status == 5000 ? "CUDNN_STATUS_EXECUTION_FAILED" : "CUDNN_STATUS_UNKNOWN"; }
#define TEXT(name) EXPORT const char *name(void) { return "stand-in"; }
/* The version of cuDNN that libtorch 2.11 was built with. */
#define VERSION(name) EXPORT size_t name(void) { return 91900; }
