/* Names and texts of the public errors (enum cudaError, cudaGetErrorString), from the project's own table of them. */
#include "standin.h"

static const struct { int code; const char *name, *text; } ERRORS[] = {
#include "errors.inc"
};

static int at(int code)
{
    for (int i = 0; i < (int)(sizeof ERRORS / sizeof *ERRORS); i++)
        if (ERRORS[i].code == code) return i;
    return -1;
}

const char *error_name(int code) { return at(code) < 0 ? "unrecognized error code" : ERRORS[at(code)].name; }
const char *error_text(int code) { return at(code) < 0 ? "unrecognized error code" : ERRORS[at(code)].text; }
