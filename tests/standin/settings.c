/* Settings and log: files of the directory that STANDIN_DIR names. */
#define _GNU_SOURCE
#include "standin.h"
#include <ctype.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct settings said = {
    .cards = 1, .major = 8, .minor = 0, .lag = 8, .heats = 10, .memory = (size_t)8 << 30, .context = (size_t)256 << 20,
};

size_t settings_bytes(const char *text)
{
    char *unit;
    double value = strtod(text, &unit);
    int shift = *unit == 'G' ? 30 : *unit == 'M' ? 20 : *unit == 'K' ? 10 : 0;
    return (size_t)(value * (double)(1L << shift));
}

char *settings_path(const char *file)
{
    const char *directory = getenv("STANDIN_DIR");
    char *path = NULL;
    if (!directory || !*directory || asprintf(&path, "%s/%s", directory, file) < 0) return NULL;
    return path;
}

static void set(const char *word, const char *value)
{
    if (!strcmp(word, "cards")) said.cards = atoi(value) < CARDS ? atoi(value) : CARDS;
    else if (!strcmp(word, "memory")) said.memory = settings_bytes(value);
    else if (!strcmp(word, "context")) said.context = settings_bytes(value);
    else if (!strcmp(word, "capability")) sscanf(value, "%d.%d", &said.major, &said.minor);
    else if (!strcmp(word, "lag")) said.lag = atoi(value);
    else if (!strcmp(word, "celsius")) said.celsius = atoi(value);
    else if (!strcmp(word, "heats")) said.heats = atoi(value) > 0 ? atoi(value) : 1;
    else if (!strcmp(word, "driver"))
        said.driver = !strcmp(value, "absent") ? DRIVER_ABSENT
                      : !strcmp(value, "old")  ? DRIVER_OLD
                      : !strcmp(value, "busy") ? DRIVER_BUSY
                                               : DRIVER_OK;
    else {
        /* A test that sets what there is not would test something else. */
        fprintf(stderr, "stand-in: no setting is called %s\n", word);
        abort();
    }
}

static void read_settings(void)
{
    char *path = settings_path("settings");
    FILE *file = path ? fopen(path, "re") : NULL;
    char word[32], value[64];
    while (file && fscanf(file, "%31s %63s", word, value) == 2) set(word, value);
    if (file) fclose(file);
    free(path);
    const char *blocking = getenv("CUDA_LAUNCH_BLOCKING");
    said.blocking = blocking && atoi(blocking);
}

const struct settings *settings(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_settings);
    return &said;
}

void settings_uuid(int card, unsigned char bytes[16])
{
    memcpy(bytes, "stand-in card  ", 15);
    bytes[15] = (unsigned char)('0' + card);
}

void settings_uuid_text(int card, char text[41])
{
    unsigned char bytes[16];
    settings_uuid(card, bytes);
    char *at = text + sprintf(text, "GPU-");
    for (int i = 0; i < 16; i++) {
        int dash = i == 4 || i == 6 || i == 8 || i == 10;
        at += sprintf(at, dash ? "-%02x" : "%02x", bytes[i]);
    }
}

EXPORT void standin_log(const char *format, ...)
{
    static FILE *log;
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static int opened;
    pthread_mutex_lock(&mutex);
    if (!opened++) {
        char *path = settings_path("log");
        log = path ? fopen(path, "ae") : NULL;
        free(path);
    }
    if (log) {
        char line[640];
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(line, sizeof line, format, arguments);
        va_end(arguments);
        /* One write a line: other processes append to the same file. */
        fprintf(log, "%d %s\n", getpid(), line);
        fflush(log);
    }
    pthread_mutex_unlock(&mutex);
}
