/* How the files that implement functions of the runtime and of the driver say it. */
#ifndef RUNTIME_H
#define RUNTIME_H
#include <cuda.h>
#include <cuda_runtime_api.h>

#define API EXPORT cudaError_t
#define DRIVER EXPORT CUresult
/* Comes first in every function: what it touches. */
#define GATE(touches) do { int code_ = gate(__func__, touches, NULL); if (code_) return (cudaError_t)code_; } while (0)
#define DRIVER_GATE(touches) do { int code_ = gate(__func__, touches, NULL); if (code_) return (CUresult)code_; } while (0)
#endif
