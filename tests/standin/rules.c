/* Fault rules: the file `rules`, read anew when it changes. A rule a line, or several with `;` between them:
 *
 *   CALL[/KERNEL][@N[+][xM]][#P][^C][$NAME:VALUE]=ACTION
 *
 * CALL and KERNEL are shell patterns. Every launch, a library's too, is the call `launch`, with the kernel's mangled
 * or the function's name; the making of a context is the call `context`. @N: the N-th match of the process (1);
 * with `+` that one and all after it. xM: M times at most, in all processes together. #P: only in the P-th
 * process that made a context. ^C: only on a card of C degrees Celsius or more. $NAME:VALUE: only in processes whose environment has this variable with this value;
 * $NAME!VALUE: only in others. ACTION is
 *
 *   N            this call fails with this cudaError
 *   sticky:N     the context is broken from here on; a launch itself succeeds, and the error shows up later
 *   status:N     this function of a library (cuBLAS, cuDNN) answers its own status N
 *   spin         the card works for ever: who waits for it hangs
 *   hang         this call never returns
 *   slow:MS      this call takes so many milliseconds longer
 *   kill:SIGNAL  the process gets this signal
 *   lost:XID     the card is gone for every process, and NVML says so; 79: it fell off the bus
 *   ecc          an error in the card's memory: sticky 214, NVML counts it, Xid 48
 *   heal         the card is as new: what a reset does
 *   take:MIB, give:MIB   another program takes memory of the card, gives it back
 *   flip:MIB     a bit of the largest allocation changes, so many MiB behind its beginning
 *   pieces:MIB   from here on no piece of free memory is larger (0: free memory is whole)
 */
#define _GNU_SOURCE
#include "standin.h"
#include <ctype.h>
#include <fnmatch.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

struct rule {
    char call[64], kernel[160], variable[64], value[64];
    unsigned long nth, seen, most, process, celsius;
    int onwards, otherwise;
    struct fault fault;
};
static struct rule rules[RULES];
static int count;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static const struct { const char *word; enum action action; } ACTIONS[] = {
    {"sticky", STICKY}, {"status", ANSWER}, {"spin", SPIN}, {"hang", HANG}, {"slow", SLOW}, {"kill", KILL}, {"lost", LOST},
    {"ecc", ECC}, {"heal", HEAL}, {"take", TAKE}, {"give", GIVE}, {"pieces", PIECES}, {"flip", FLIP},
};

static int parse_action(const char *text, struct fault *fault)
{
    if (isdigit((unsigned char)*text)) {
        *fault = (struct fault){CODE, atol(text)};
        return 1;
    }
    size_t length = strcspn(text, ":");
    for (size_t i = 0; i < sizeof ACTIONS / sizeof *ACTIONS; i++)
        if (strlen(ACTIONS[i].word) == length && !strncmp(text, ACTIONS[i].word, length)) {
            *fault = (struct fault){ACTIONS[i].action, text[length] ? atol(text + length + 1) : 0};
            return 1;
        }
    return 0;
}

/* $NAME:VALUE or $NAME!VALUE, which is cut off. */
static int parse_condition(char *text, struct rule *rule)
{
    char *name = strchr(text, '$');
    if (!name) return 1;
    *name++ = 0;
    size_t length = strcspn(name, ":!");
    if (!length || !name[length] || length >= sizeof rule->variable) return 0;
    rule->otherwise = name[length] == '!';
    snprintf(rule->variable, sizeof rule->variable, "%.*s", (int)length, name);
    snprintf(rule->value, sizeof rule->value, "%s", name + length + 1);
    return 1;
}

static int holds(const struct rule *rule)
{
    const char *value = *rule->variable ? getenv(rule->variable) : NULL;
    return !*rule->variable || (value && !strcmp(value, rule->value)) != rule->otherwise;
}

static int parse(char *text, struct rule *rule)
{
    char *equals = strrchr(text, '=');
    if (!equals || !parse_action(equals + 1, &rule->fault)) return 0;
    *equals = 0;
    if (!parse_condition(text, rule)) return 0;
    char *counts = text + strcspn(text, "@#^");
    rule->nth = 1;
    while (*counts) {
        char kind = *counts;
        *counts = 0;
        unsigned long number = strtoul(counts + 1, &counts, 10);
        if (kind == '@') rule->nth = number;
        else if (kind == 'x') rule->most = number;
        else if (kind == '#') rule->process = number;
        else if (kind == '^') rule->celsius = number;
        else return 0;
        if (kind == '@' && *counts == '+') rule->onwards = 1, counts++;
    }
    char *slash = strchr(text, '/');
    if (slash) *slash++ = 0;
    snprintf(rule->call, sizeof rule->call, "%s", text);
    snprintf(rule->kernel, sizeof rule->kernel, "%s", slash ? slash : "");
    return 1;
}

static void read_rules(FILE *file)
{
    char text[8192];
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    count = 0;
    char *save = NULL;
    for (char *one = strtok_r(text, ";\n", &save); one && count < RULES; one = strtok_r(NULL, ";\n", &save)) {
        while (isspace((unsigned char)*one)) one++;
        if (!*one) continue;
        struct rule rule = {0};
        if (!parse(one, &rule)) {
            fprintf(stderr, "stand-in: no rule: %s\n", one);
            abort();
        }
        rules[count++] = rule;
    }
}

/* Looks every 5 ms whether the file is another one. */
static void refresh(void)
{
    static struct timespec looked, changed;
    static char *path;
    static int first = 1;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    if (!first && (now.tv_sec - looked.tv_sec) * 1000000000L + now.tv_nsec - looked.tv_nsec < 5000000) return;
    if (first) path = settings_path("rules");
    first = 0;
    looked = now;
    struct stat is;
    if (!path || stat(path, &is) || (is.st_mtim.tv_sec == changed.tv_sec && is.st_mtim.tv_nsec == changed.tv_nsec)) return;
    changed = is.st_mtim;
    FILE *file = fopen(path, "re");
    if (file) read_rules(file), fclose(file);
}

extern unsigned gate_process(void);

static int fires(struct rule *rule, int index, const char *call, const char *kernel)
{
    if (fnmatch(rule->call, call, 0)) return 0;
    if (*rule->kernel && (!kernel || fnmatch(rule->kernel, kernel, 0))) return 0;
    if (rule->process && rule->process != gate_process()) return 0;
    if (rule->celsius && account_celsius(account_join(), machine_card(current_card())) < (int)rule->celsius) return 0;
    if (!holds(rule)) return 0;
    rule->seen++;
    if (rule->onwards ? rule->seen < rule->nth : rule->seen != rule->nth) return 0;
    return !rule->most || __atomic_fetch_add(&account_join()->fired[index], 1, __ATOMIC_RELAXED) < rule->most;
}

struct fault rules_at(const char *call, const char *kernel)
{
    struct fault found = {NOTHING, 0};
    pthread_mutex_lock(&mutex);
    refresh();
    for (int i = 0; i < count && !found.action; i++)
        if (fires(&rules[i], i, call, kernel)) found = rules[i].fault;
    pthread_mutex_unlock(&mutex);
    if (found.action)
        standin_log("fault %s %s: action %d, %ld%s", call, kernel ? kernel : "", found.action, found.number, settings()->blocking ? ", launches block" : "");
    return found;
}
