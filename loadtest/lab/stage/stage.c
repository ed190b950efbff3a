#include "loadtest/lab/stage/stage.h"

#include <dirent.h>
#include <jansson.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/random.h"

enum { PARTS = 128, FLUSH_MS = 10, PATIENCE_US = 2000 };

struct stage {
    struct stage_options options;
    _Atomic(struct recorder *) recorder; /* from stage_begin() on; clients have a thread that records */
    uint64_t random;
    int64_t start_ns; /* 0: it has not begun */
    pthread_t flusher;
    atomic_bool ending;
    struct {
        void (*end)(void *part);
        void *part;
    } parts[PARTS];
    int part_count;
    atomic_bool failed;
    char why[300];
};

/* ---- what failed ---- */

void stage_fail(struct stage *stage, const char *format, ...) {
    if (atomic_exchange(&stage->failed, true))
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(stage->why, sizeof stage->why, format, arguments);
    va_end(arguments);
}

bool stage_failed(const struct stage *stage) {
    return atomic_load(&stage->failed);
}

/* ---- begin and end ---- */

struct stage *stage_open(const struct stage_options *options) {
    struct stage *stage = calloc(1, sizeof *stage);
    if (!stage)
        return NULL;
    stage->options = *options;
    stage->random = (uint64_t)options->play.seed;
    stage->options.play.servers = json_object();
    return stage;
}

static void *stage_flush(void *arg) {
    struct stage *stage = arg;
    const struct timespec pause = {.tv_nsec = FLUSH_MS * 1000000L};
    while (!atomic_load(&stage->ending)) {
        nanosleep(&pause, NULL);
        recorder_flush(stage->recorder, false);
    }
    return NULL;
}

/* Also for a play whose set-up has failed: its events have a first line and a verdict. */
static bool stage_start_recording(struct stage *stage) {
    stage->start_ns = clock_now_ns();
    stage->recorder = recorder_new(stage->options.events, &stage->options.play, stage->start_ns);
    return stage->recorder;
}

void stage_begin(struct stage *stage) {
    if (stage_failed(stage))
        return;
    if (!stage_start_recording(stage) || pthread_create(&stage->flusher, NULL, stage_flush, stage) != 0) {
        stage_fail(stage, "no memory to record events");
        recorder_free(stage->recorder);
        stage->recorder = NULL;
    }
}

const char *stage_end(struct stage *stage) {
    while (stage->part_count > 0) {
        stage->part_count--;
        stage->parts[stage->part_count].end(stage->parts[stage->part_count].part);
    }
    if (stage->recorder) {
        atomic_store(&stage->ending, true);
        pthread_join(stage->flusher, NULL);
        recorder_flush(stage->recorder, true);
    } else if (!stage_start_recording(stage)) {
        stage_fail(stage, "no memory to record events");
    }
    return stage_failed(stage) ? stage->why : NULL;
}

static void stage_copy_log(const char *from, const char *to) {
    char buffer[4096];
    FILE *in = fopen(from, "re"), *out = in ? fopen(to, "we") : NULL;
    for (size_t length; out && (length = fread(buffer, 1, sizeof buffer, in)) > 0;)
        fwrite(buffer, 1, length, out);
    if (out)
        fclose(out);
    if (in)
        fclose(in);
}

void stage_copy_logs(const struct stage *stage, const char *to) {
    DIR *directory = opendir(stage->options.directory);
    mkdir(to, 0777);
    for (const struct dirent *entry; directory && (entry = readdir(directory));) {
        const char *end = strrchr(entry->d_name, '.');
        char source[PATH_MAX], copy[PATH_MAX];
        if (!end || strcmp(end, ".log") != 0)
            continue;
        snprintf(source, sizeof source, "%s/%s", stage->options.directory, entry->d_name);
        snprintf(copy, sizeof copy, "%s/%s", to, entry->d_name);
        stage_copy_log(source, copy);
    }
    if (directory)
        closedir(directory);
}

bool stage_tell_verdict(struct stage *stage, const struct event *verdict) {
    return stage->recorder && recorder_end(stage->recorder, verdict);
}

void stage_free(struct stage *stage) {
    recorder_free(stage->recorder);
    json_decref(stage->options.play.servers);
    free(stage);
}

/* ---- time, and choice ---- */

int64_t stage_in_ms(int64_t ms) {
    return clock_now_ns() + ms * 1000000;
}

int64_t stage_now_ms(const struct stage *stage) {
    return stage->start_ns == 0 ? 0 : (clock_now_ns() - stage->start_ns) / 1000000;
}

static void sleep_until(int64_t at_ns) {
    const struct timespec at = {.tv_sec = at_ns / 1000000000, .tv_nsec = at_ns % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) != 0) {
    }
}

void stage_until(struct stage *stage, int64_t t_ms) {
    if (!stage_failed(stage))
        sleep_until(stage->start_ns + t_ms * 1000000);
}

void stage_pause(struct stage *stage, int64_t ms) {
    if (!stage_failed(stage))
        sleep_until(stage_in_ms(ms));
}

bool stage_patience(struct stage *stage, int64_t deadline_ns) {
    if (stage_failed(stage) || clock_now_ns() >= deadline_ns)
        return false;
    usleep(PATIENCE_US);
    return true;
}

int64_t stage_random(struct stage *stage, int64_t least, int64_t most) {
    return least + (int64_t)(random_next(&stage->random) % (uint64_t)(most - least + 1));
}

int64_t stage_ttl_ms(const struct stage *stage) {
    return stage->options.play.ttl_ms;
}

/* ---- events ---- */

void stage_record(struct stage *stage, const struct event *event) {
    if (stage->recorder)
        recorder_add(stage->recorder, event);
}

void stage_note(struct stage *stage, const char *text) {
    if (!stage_failed(stage))
        stage_record(stage, &(struct event){.kind = EVENT_NOTE, .who = "lab", .text = text});
}

void stage_record_stock(struct stage *stage, const char *item, int64_t initial, int64_t available,
                        int64_t sold) {
    if (!stage_failed(stage))
        stage_record(stage, &(struct event){.kind = EVENT_SALE_STOCK,
                                            .who = "stock",
                                            .item = item,
                                            .initial = initial,
                                            .available = available,
                                            .sold = sold});
}

void stage_record_fault(struct stage *stage, enum event_kind kind, const char *target, const char *what) {
    if (!stage_failed(stage))
        stage_record(stage, &(struct event){.kind = kind, .who = "lab", .what = what, .target = target});
}

void stage_fault(struct stage *stage, const char *target, const char *what) {
    stage_record_fault(stage, EVENT_FAULT_START, target, what);
}

void stage_fault_over(struct stage *stage, const char *target, const char *what) {
    stage_record_fault(stage, EVENT_FAULT_END, target, what);
}

/* ---- for the parts ---- */

void stage_add(struct stage *stage, void (*end)(void *part), void *part) {
    if (stage->part_count == PARTS) {
        stage_fail(stage, "a play has more than %d parts", PARTS);
        end(part);
        return;
    }
    stage->parts[stage->part_count].end = end;
    stage->parts[stage->part_count++].part = part;
}

const struct stage_options *stage_options(const struct stage *stage) {
    return &stage->options;
}

void stage_add_version(struct stage *stage, const char *server, const char *version) {
    json_object_set_new(stage->options.play.servers, server, json_string(version));
}
