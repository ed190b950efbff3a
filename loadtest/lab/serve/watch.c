#include "loadtest/lab/serve/watch.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

enum { WATCHERS_MAX = 16, PERIOD_MS = 20, COMMENT_MS = 5000, READ_SIZE = 65536 };

struct watch {
    struct desk *desk;
    struct desk_run run;
    int fd;        /* -1: the file is not there yet */
    int64_t next;  /* the number of the line that is read next */
    int64_t after; /* lines up to this one are not sent */
    char *text;    /* what was read, and is no whole line yet */
    size_t text_length, text_size;
    char *out; /* what is to be sent */
    size_t out_from, out_length, out_size;
    bool told_end;
    int64_t spoke_ns;
};

static atomic_int watchers;

struct watch *watch_open(struct desk *desk, const struct desk_run *run, int64_t after) {
    struct watch *w = NULL;
    if (atomic_fetch_add(&watchers, 1) >= WATCHERS_MAX || (w = calloc(1, sizeof *w)) == NULL) {
        atomic_fetch_sub(&watchers, 1);
        return NULL;
    }
    *w = (struct watch){.desk = desk, .run = *run, .fd = -1, .after = after, .spoke_ns = clock_now_ns()};
    return w;
}

void watch_close(struct watch *w) {
    if (w == NULL)
        return;
    if (w->fd >= 0)
        close(w->fd);
    free(w->text);
    free(w->out);
    free(w);
    atomic_fetch_sub(&watchers, 1);
}

/* ---- what is to be sent ---- */

/* False when out of memory. */
static bool make_room(char **text, size_t *size, size_t wanted) {
    if (wanted <= *size)
        return true;
    size_t larger = wanted * 2;
    char *grown = realloc(*text, larger);
    if (grown == NULL)
        return false;
    *text = grown;
    *size = larger;
    return true;
}

static bool say(struct watch *w, const char *text, size_t length) {
    if (!make_room(&w->out, &w->out_size, w->out_length + length))
        return false;
    memcpy(w->out + w->out_length, text, length);
    w->out_length += length;
    return true;
}

static bool say_line(struct watch *w, const char *line, size_t length) {
    char head[64];
    int64_t number = w->next++;
    if (number <= w->after)
        return true;
    int head_length = snprintf(head, sizeof head, "id: %lld\ndata: ", (long long)number);
    return say(w, head, (size_t)head_length) && say(w, line, length) && say(w, "\n\n", 2);
}

/* ---- reading ---- */

/* Takes whole lines out of what was read. */
static bool take_lines(struct watch *w) {
    size_t from = 0;
    const char *end;
    while ((end = memchr(w->text + from, '\n', w->text_length - from)) != NULL) {
        size_t length = (size_t)(end - w->text) - from;
        if (!say_line(w, w->text + from, length))
            return false;
        from += length + 1;
    }
    memmove(w->text, w->text + from, w->text_length - from);
    w->text_length -= from;
    return true;
}

/* False: there is nothing new, or no memory. */
static bool read_more(struct watch *w) {
    if (w->fd < 0 && (w->fd = open(w->run.events, O_RDONLY | O_CLOEXEC)) < 0)
        return false;
    if (!make_room(&w->text, &w->text_size, w->text_length + READ_SIZE))
        return false;
    ssize_t got = read(w->fd, w->text + w->text_length, READ_SIZE);
    if (got <= 0)
        return false;
    w->text_length += (size_t)got;
    return take_lines(w);
}

/* It has ended, or is so old that it is not kept. */
static bool has_ended(struct watch *w) {
    struct desk_run run;
    return !desk_find(w->desk, w->run.id, &run) || run.ended;
}

/* Nothing is to be sent: waits until there is. */
static void gather(struct watch *w) {
    const struct timespec period = {.tv_nsec = PERIOD_MS * 1000000L};
    w->out_from = w->out_length = 0;
    while (w->out_length == 0) {
        bool ended = has_ended(w); /* before reading: what was written by then is read */
        if (read_more(w))
            continue;
        if (ended) {
            w->told_end = say(w, "event: end\ndata: {}\n\n", 21);
            return;
        }
        if (clock_now_ns() - w->spoke_ns > COMMENT_MS * INT64_C(1000000))
            say(w, ": waiting\n\n", 11);
        else
            nanosleep(&period, NULL);
    }
    w->spoke_ns = clock_now_ns();
}

size_t watch_read(struct watch *w, char *out, size_t size) {
    if (w->out_from == w->out_length && !w->told_end)
        gather(w);
    size_t left = w->out_length - w->out_from, length = left < size ? left : size;
    memcpy(out, w->out + w->out_from, length);
    w->out_from += length;
    return length;
}
