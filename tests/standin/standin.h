/* A CUDA runtime without a GPU, for tests: what its parts share. What it is and how a test sets it is told in README.md. */
#ifndef STANDIN_H
#define STANDIN_H
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- For the libraries beside the runtime: cuBLAS, the operators ------------------------------------------- */

/* A pretended launch of a kernel, or of a library's function. Returns a cudaError, or STATUS + N where a rule
 * wants the library to answer its own status N. */
int standin_launch(const char *name);
/* The card has met this error in a kernel: it is reported as such errors are. */
void standin_break(int code);
/* A line in the log. */
void standin_log(const char *format, ...) __attribute__((format(printf, 1, 2)));
enum { STATUS = 1 << 20 };

#ifdef __cplusplus
}
#else

#define EXPORT __attribute__((visibility("default")))
enum { CARDS = 8, PROCESSES = 64, RULES = 64, XIDS = 64 };

/* --- settings.c: what the directory STANDIN_DIR says ------------------------------------------------------- */

enum driver { DRIVER_OK, DRIVER_ABSENT, DRIVER_OLD, DRIVER_BUSY };
struct settings {
    int cards, major, minor, lag, blocking;
    /* Degrees of a card that is idle, and launches that make it a degree hotter; 0: NVML tells no temperature. */
    int celsius, heats;
    enum driver driver;
    size_t memory, context;
};
/* Read once; the defaults where there is no such directory. */
const struct settings *settings(void);
/* A file in the directory, or NULL; the caller frees it. */
char *settings_path(const char *file);
/* A number of bytes with K, M or G behind it. */
size_t settings_bytes(const char *text);
/* 16 bytes that are the card's own, and how NVML writes them. */
void settings_uuid(int card, unsigned char bytes[16]);
void settings_uuid_text(int card, char text[41]);

/* --- account.c: the memory of all processes ---------------------------------------------------------------- */

/* In a file that all processes map. A process is there while it holds the lock of its line, so that one that was
 * killed is gone at once. Line 0 is the neighbour: another program, which lives for ever. */
struct account {
    struct process { int pid; size_t used[CARDS]; } process[PROCESSES];
    /* How often each rule has fired; how many processes have made a context. */
    unsigned fired[RULES], contexts;
    struct card {
        /* The error that every call answers once the card is lost; 0: it is there. */
        int lost;
        /* The largest piece that cudaMalloc finds; 0: any. */
        size_t pieces;
        unsigned ecc, xids, xid[XIDS];
        /* Launches since the card was idle. */
        unsigned launches;
    } card[CARDS];
};
/* The account; makes this process a line of it. NULL without STANDIN_DIR if `shared` only is wanted. */
struct account *account_join(void);
/* The account for somebody who only looks; NULL where there is none. */
struct account *account_look(void);
/* Whether line I is a living process's. */
int account_lives(const struct account *of, int i);
/* Bytes that all processes use on the card. */
size_t account_used(int card);
/* Adds so much to what this process uses; 0 if the card has not that much left. */
int account_charge(int card, size_t bytes);
void account_release(int card, size_t bytes);
/* What the neighbour uses from now on: so much more or less. */
void account_neighbour(int card, long long bytes);
/* The card has an Xid. */
void account_xid(int card, unsigned xid);
/* How hot the card is. A model: what is launched heats it, and it is cold again when a process comes to an idle card. */
int account_celsius(const struct account *of, int card);
/* Where it slows down. */
enum { SLOWDOWN = 90, HOTTEST = 95 };

/* --- rules.c: faults on command ------------------------------------------------------------------------------ */

enum action { NOTHING, CODE, STICKY, ANSWER, SPIN, HANG, SLOW, KILL, LOST, ECC, HEAL, TAKE, GIVE, PIECES, FLIP };
struct fault { enum action action; long number; };
/* What happens at this call; `kernel` is NULL where nothing is launched. Counts the rules that match. */
struct fault rules_at(const char *call, const char *kernel);

/* --- gate.c: what stands before every call -------------------------------------------------------------------- */

/* What a call touches: nothing, the context, or it waits for the card. */
enum { PLAIN = 0, CONTEXT = 1, WAITS = 3 };
int gate(const char *call, int touches, const char *kernel);
/* Notes the error as the thread's last one, and gives it back. */
int failed(int code);
int last_error(int clear);
/* The card of this thread, by the number the process sees, and by the machine's. */
int current_card(void);
void set_current_card(int card);
int visible_cards(void);
int machine_card(int card);
/* Whether this process has a context on it, and whether the card is busy for ever. */
int has_context(int card);
int card_spins(void);

/* --- memory.c --------------------------------------------------------------------------------------------------- */

int memory_allocate(void **out, size_t bytes);
int memory_release(void *at);
int memory_copy(void *to, const void *from, size_t bytes);
int memory_fill(void *at, int value, size_t bytes);
/* Changes a bit so many bytes behind the beginning of the largest allocation, if there is one. */
void memory_flip(size_t offset);
/* Pages of the host, aligned; NULL if there are none. */
void *memory_pages(size_t bytes, size_t align, int protection);
/* Physical memory behind reserved addresses (the driver's virtual memory management). */
void memory_mapped(void *at, size_t bytes, int card);
/* Gives back what is mapped there; 0 if the range is not whole pieces that are mapped. */
int memory_unmapped(void *at, size_t bytes);
enum { UNIT = 2 << 20 };

/* --- errors.c --------------------------------------------------------------------------------------------------- */

const char *error_name(int code);
const char *error_text(int code);

#endif
#endif
