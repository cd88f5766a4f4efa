/* What stands before every call: it makes the context, applies the rules, and reports what has happened on the card.
 *
 * When an asynchronous error shows up is a model: a faulting launch succeeds; the error is the answer of the next
 * call that waits for the card, or of the `lag`-th call after the launch; from then on every call with a context
 * gives it. With CUDA_LAUNCH_BLOCKING the launch itself gives it. */
#define _GNU_SOURCE
#include "standin.h"
#include <driver_types.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* This process's side of a card. */
static struct side { int live; volatile int sticky, pending, lag, spins; } sides[CARDS];
static __thread int current, last;
static unsigned process;

static void rest(long milliseconds)
{
    struct timespec left = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
    while (nanosleep(&left, &left)) {}
}
static void for_ever(void) { for (;;) rest(3600000); }

/* ---- Which cards there are --------------------------------------------------------------------------------- */

static int visible[CARDS], visible_count;

/* The card that an entry of CUDA_VISIBLE_DEVICES names, or -1. */
static int named(const char *entry)
{
    char *end, uuid[41];
    long number = strtol(entry, &end, 10);
    if (end != entry) return !*end && number >= 0 && number < settings()->cards ? (int)number : -1;
    for (int card = 0; card < settings()->cards; card++) {
        settings_uuid_text(card, uuid);
        if (!strncmp(uuid, entry, strlen(entry))) return card;
    }
    return -1;
}

static void look(void)
{
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    if (settings()->driver == DRIVER_ABSENT || settings()->driver == DRIVER_OLD) return;
    if (!list) {
        while (visible_count < settings()->cards) visible[visible_count] = visible_count, visible_count++;
        return;
    }
    char *copy = strdup(list), *save = NULL;
    for (char *entry = strtok_r(copy, ",", &save); entry && visible_count < CARDS; entry = strtok_r(NULL, ",", &save)) {
        /* The first entry that names no card hides itself and all behind it. */
        int card = named(entry);
        if (card < 0) break;
        visible[visible_count++] = card;
    }
    free(copy);
}

int visible_cards(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, look);
    return visible_count;
}
int machine_card(int card) { return card < visible_cards() ? visible[card] : card; }
int current_card(void) { return current; }
void set_current_card(int card) { current = card; }
int has_context(int card) { return sides[card].live; }
int card_spins(void) { return sides[current].spins; }

/* ---- Errors -------------------------------------------------------------------------------------------------- */

int failed(int code)
{
    if (code) last = code;
    return code;
}
int last_error(int clear)
{
    int code = sides[current].sticky ? sides[current].sticky : last;
    if (clear) last = cudaSuccess;
    return code;
}

/* ---- The gate ------------------------------------------------------------------------------------------------ */

/* Does what a rule says beyond an error; gives the error that comes of it, and whether the context keeps it. */
static int carry_out(struct fault fault, int *sticky)
{
    int card = machine_card(current);
    struct card *at = &account_join()->card[card];
    *sticky = 0;
    switch (fault.action) {
    case CODE: return (int)fault.number;
    case ANSWER: return STATUS + (int)fault.number;
    case STICKY: *sticky = 1; return (int)fault.number;
    case SPIN: sides[current].spins = 1; break;
    case HANG: for_ever(); break;
    case SLOW: rest(fault.number); break;
    /* More than once: a handler may take the first SIGSEGV for an accident that comes again. */
    case KILL: for (int i = 0; i < 3; i++) kill(getpid(), (int)fault.number); break;
    case LOST: at->lost = cudaErrorUnknown; account_xid(card, (unsigned)fault.number); break;
    case ECC: at->ecc++; account_xid(card, 48); *sticky = 1; return cudaErrorECCUncorrectable;
    case HEAL: at->lost = 0, at->ecc = at->xids = 0; break;
    case TAKE: account_neighbour(card, fault.number << 20); break;
    case GIVE: account_neighbour(card, -(fault.number << 20)); break;
    case PIECES: at->pieces = (size_t)fault.number << 20; break;
    case FLIP: memory_flip((size_t)fault.number << 20); break;
    case NOTHING: break;
    }
    return cudaSuccess;
}

unsigned gate_process(void) { return process; }

/* Makes the context of the current card. */
static int make_context(struct side *side)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    int ignored, code = cudaSuccess;
    pthread_mutex_lock(&mutex);
    if (!process) process = __atomic_add_fetch(&account_join()->contexts, 1, __ATOMIC_RELAXED);
    if (!side->live) {
        code = carry_out(rules_at("context", NULL), &ignored);
        if (!code && account_join()->card[machine_card(current)].lost) code = account_join()->card[machine_card(current)].lost;
        if (!code && settings()->driver == DRIVER_BUSY) code = cudaErrorDevicesUnavailable;
        if (!code && !account_used(machine_card(current))) account_join()->card[machine_card(current)].launches = 0;
        if (!code && !account_charge(machine_card(current), settings()->context)) code = cudaErrorMemoryAllocation;
        side->live = !code;
    }
    pthread_mutex_unlock(&mutex);
    return code;
}

/* What the card answers to a call that needs its context. */
static int context_answers(struct side *side, int touches, int launches)
{
    int waits = (touches & WAITS) == WAITS || (launches && settings()->blocking);
    if (side->spins && waits) for_ever();
    int lost = account_join()->card[machine_card(current)].lost;
    if (lost && !side->sticky) side->sticky = lost;
    if (side->pending && (waits || side->lag-- <= 0)) {
        side->sticky = side->pending;
        side->pending = 0;
    }
    return side->sticky;
}

int gate(const char *call, int touches, const char *kernel)
{
    struct side *side = &sides[current];
    int sticky, code;
    if (touches && !visible_cards()) return failed(settings()->driver == DRIVER_OK ? cudaErrorNoDevice : cudaErrorInsufficientDriver);
    if ((touches & CONTEXT) && !side->live && (code = make_context(side))) return failed(code);
    if (kernel) __atomic_fetch_add(&account_join()->card[machine_card(current)].launches, 1, __ATOMIC_RELAXED);
    struct fault fault = rules_at(kernel ? "launch" : call, kernel);
    code = fault.action ? carry_out(fault, &sticky) : cudaSuccess;
    if (touches & CONTEXT) {
        int answer = context_answers(side, touches, kernel != NULL);
        if (answer) return failed(answer);
    }
    if (code && sticky && (touches & CONTEXT)) {
        if (kernel && !settings()->blocking) {
            side->lag = settings()->lag;
            side->pending = code;
            return cudaSuccess;
        }
        side->sticky = code;
    }
    return code >= STATUS ? code : failed(code);
}

/* A library has a runtime of its own on a real machine: what fails in it is no last error of the program's. */
EXPORT int standin_launch(const char *name)
{
    int before = last, code = gate("launch", CONTEXT, name);
    last = before;
    return code;
}

EXPORT void standin_break(int code)
{
    struct side *side = &sides[current];
    standin_log("broken by %d", code);
    if (side->sticky) return;
    if (settings()->blocking) side->sticky = code;
    else side->lag = settings()->lag, side->pending = code;
}
