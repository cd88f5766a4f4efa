/* What cuBLAS' stand-in answers itself (signatures: cublas_api.h, cublasLt.h); products are pretended launches. */
#ifdef LIBRARY_libcublas_so_13
/* 1 is CUBLAS_STATUS_NOT_INITIALIZED, which is what a broken context comes out as. */
HAND(cublasCreate_v2, void **handle) { static int only; int code = standin_launch("cublasCreate_v2"); *handle = &only; return code >= STATUS ? code - STATUS : code ? 1 : 0; }
HAND(cublasGetPointerMode_v2, void *handle, int *mode) { *mode = 0; return 0; }
HAND(cublasGetMathMode, void *handle, int *mode) { *mode = 0; return 0; }
HAND(cublasGetVersion_v2, void *handle, int *version) { *version = 130100; return 0; }
HAND(cublasGetStream_v2, void *handle, void **stream) { *stream = 0; return 0; }
HAND(cublasGetSmCountTarget, void *handle, int *count) { *count = 0; return 0; }
#else
HAND(cublasLtCreate, void **handle) { static int only; *handle = &only; return 0; }
HAND(cublasLtMatmulDescCreate, void **out, int compute, int scale) { *out = out; return 0; }
HAND(cublasLtMatrixLayoutCreate, void **out, int type, uint64_t rows, uint64_t columns, int64_t leading) { *out = out; return 0; }
HAND(cublasLtMatmulPreferenceCreate, void **out) { *out = out; return 0; }
/* One algorithm that needs no workspace: a cublasLtMatmulHeuristicResult_t of zeros, 96 bytes. */
HAND(cublasLtMatmulAlgoGetHeuristic, void *handle, void *operation, void *a, void *b, void *c, void *d, void *preference, int wanted, void *results, int *found)
{
    memset(results, 0, 96);
    *found = 1;
    return 0;
}
#endif
