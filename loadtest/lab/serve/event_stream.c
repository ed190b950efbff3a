/* An event stream: follows the file of a run, and sends its lines as Server-Sent Events. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "loadtest/lab/serve/page_server.h"

enum { STREAMS_MAX = 16, PERIOD_MS = 20, COMMENT_MS = 5000, OUT_SIZE = 65536 };

struct event_stream {
    struct run_control *control;
    struct lab_run run;
    FILE *in;      /* NULL: the file is not there yet */
    int64_t next;  /* the number of the line to be read next */
    int64_t after; /* lines up to this one are not sent */
    char *line;    /* the last one that was read */
    size_t line_size;
    char *out; /* what is to be sent */
    size_t out_from, out_length;
    bool told_end;
    int64_t sent_ns;
};

static atomic_int streams;

struct event_stream *event_stream_open(struct run_control *control, const struct lab_run *run,
                                       int64_t after) {
    struct event_stream *s = NULL;
    if (atomic_fetch_add(&streams, 1) >= STREAMS_MAX || !(s = calloc(1, sizeof *s))) {
        atomic_fetch_sub(&streams, 1);
        return NULL;
    }
    *s = (struct event_stream){.control = control, .run = *run, .after = after, .sent_ns = clock_now_ns()};
    return s;
}

void event_stream_close(struct event_stream *s) {
    if (!s)
        return;
    if (s->in)
        fclose(s->in);
    free(s->line);
    free(s->out);
    free(s);
    atomic_fetch_sub(&streams, 1);
}

/* Copies the next line to `out`. Returns false if no whole line is there yet. */
static bool event_stream_copy_line(struct event_stream *s, FILE *out) {
    if (!s->in && !(s->in = fopen(s->run.events, "re")))
        return false;
    off_t at = ftello(s->in);
    ssize_t length = getline(&s->line, &s->line_size, s->in);
    if (length <= 0 || s->line[length - 1] != '\n') {
        fseeko(s->in, at, SEEK_SET); /* and forgets the end of the file */
        return false;
    }
    if (s->next > s->after)
        fprintf(out, "id: %lld\ndata: %s\n", (long long)s->next, s->line);
    s->next++;
    return true;
}

/* Returns whether the run has ended, or is not kept any more. */
static bool event_stream_has_ended(struct event_stream *s) {
    struct lab_run run;
    return !run_control_find(s->control, s->run.id, &run) || run.ended;
}

/* Waits until there is something to send, and writes it to `out`. */
static void event_stream_fill(struct event_stream *s, FILE *out) {
    const struct timespec period = {.tv_nsec = PERIOD_MS * 1000000L};
    while (ftello(out) == 0) {
        bool ended = event_stream_has_ended(s); /* asked first, so that the last lines are not missed */
        bool more = true;
        while (ftello(out) < OUT_SIZE && (more = event_stream_copy_line(s, out))) {
        }
        s->told_end = ended && !more;
        if (s->told_end)
            fputs("event: end\ndata: {}\n\n", out);
        else if (ftello(out) == 0 && clock_now_ns() - s->sent_ns > COMMENT_MS * INT64_C(1000000))
            fputs(": waiting\n\n", out);
        else if (ftello(out) == 0)
            nanosleep(&period, NULL);
    }
    s->sent_ns = clock_now_ns();
}

size_t event_stream_read(struct event_stream *s, char *text, size_t size) {
    if (s->out_from == s->out_length && !s->told_end) {
        free(s->out);
        s->out = NULL;
        s->out_from = s->out_length = 0;
        FILE *out = open_memstream(&s->out, &s->out_length);
        if (!out)
            return 0; /* no memory: the browser connects anew */
        event_stream_fill(s, out);
        fclose(out);
    }
    size_t left = s->out_length - s->out_from, length = left < size ? left : size;
    memcpy(text, s->out + s->out_from, length);
    s->out_from += length;
    return length;
}
