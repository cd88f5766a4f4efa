/* The account of the cards' memory, in a file that all processes share. */
#define _GNU_SOURCE
#include "standin.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct account *shared, alone;
static int file = -1, line = -1;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* Locks lie behind the account's end: one byte a line, and one for who writes. They belong to the open file, not
 * to the process: another library of the same process that looks at the account sees them, and closing its own
 * descriptor does not drop them. */
enum { LOCKS = 1 << 20, WRITER = LOCKS - 1 };

static int lock(int command, int type, long at)
{
    struct flock l = {.l_type = (short)type, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};
    int result = fcntl(file, command, &l);
    return command == F_OFD_GETLK ? !result && l.l_type != F_UNLCK : !result;
}

static struct account *mapped(void)
{
    char *path = settings_path("account");
    if (!path) return NULL;
    file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    free(path);
    if (file < 0 || ftruncate(file, sizeof(struct account))) abort();
    void *at = mmap(NULL, sizeof(struct account), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (at == MAP_FAILED) abort();
    return at;
}

struct account *account_look(void)
{
    pthread_mutex_lock(&mutex);
    if (!shared) shared = mapped();
    struct account *found = shared;
    pthread_mutex_unlock(&mutex);
    return found;
}

struct account *account_join(void)
{
    struct account *at = account_look();
    pthread_mutex_lock(&mutex);
    if (!at) shared = at = &alone;
    for (int i = 1; i < PROCESSES && line < 0; i++)
        if (file < 0 || lock(F_OFD_SETLK, F_WRLCK, LOCKS + i)) line = i;
    if (line < 0) abort();
    if (at->process[line].pid != getpid()) {
        memset(&at->process[line], 0, sizeof at->process[line]);
        at->process[line].pid = getpid();
    }
    pthread_mutex_unlock(&mutex);
    return at;
}

int account_lives(const struct account *of, int i)
{
    if (!of->process[i].pid) return 0;
    return i == 0 || i == line || (file >= 0 && lock(F_OFD_GETLK, F_WRLCK, LOCKS + i));
}

static size_t used(const struct account *of, int card)
{
    size_t sum = 0;
    for (int i = 0; i < PROCESSES; i++)
        if (of->process[i].used[card] && account_lives(of, i)) sum += of->process[i].used[card];
    return sum;
}

size_t account_used(int card)
{
    struct account *of = account_look();
    return of ? used(of, card) : alone.process[1].used[card];
}

static void writing(int on)
{
    if (on) pthread_mutex_lock(&mutex);
    if (file >= 0) lock(F_OFD_SETLKW, on ? F_WRLCK : F_UNLCK, WRITER);
    if (!on) pthread_mutex_unlock(&mutex);
}

int account_charge(int card, size_t bytes)
{
    struct account *of = account_join();
    writing(1);
    size_t before = used(of, card);
    int fits = before + bytes <= settings()->memory;
    if (fits) of->process[line].used[card] += bytes;
    writing(0);
    if (!fits) standin_log("out of memory: %zu asked of card %d, %zu in use, %zu by this process", bytes, card, before, of->process[line].used[card]);
    return fits;
}

void account_release(int card, size_t bytes)
{
    struct account *of = account_join();
    writing(1);
    of->process[line].used[card] -= bytes;
    writing(0);
}

void account_neighbour(int card, long long bytes)
{
    struct account *of = account_join();
    writing(1);
    struct process *neighbour = &of->process[0];
    long long now = (long long)neighbour->used[card] + bytes, left = (long long)settings()->memory - (long long)(used(of, card) - neighbour->used[card]);
    /* Nobody gets more than there is. */
    now = now < 0 ? 0 : now > left ? left : now;
    /* The first process of the machine is surely none of ours. */
    neighbour->pid = 1;
    neighbour->used[card] = (size_t)now;
    writing(0);
}

void account_xid(int card, unsigned xid)
{
    struct account *of = account_join();
    writing(1);
    struct card *at = &of->card[card];
    if (at->xids < XIDS) at->xid[at->xids++] = xid;
    writing(0);
}

int account_celsius(const struct account *of, int card)
{
    int now = settings()->celsius + (int)of->card[card].launches / settings()->heats;
    return now < HOTTEST ? now : HOTTEST;
}
