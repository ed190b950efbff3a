/* The command line of lock-bench, and the cases that it asks for. */
#include "lock/bench/bench.h"

#include <stdlib.h>
#include <string.h>

const char bench_help[] =
    "lock-bench: measures locks, and checks that they exclude each other.\n"
    "\n"
    "usage: lock-bench [option]... URL...\n"
    "example: lock-bench redis://127.0.0.1:6379 local:\n"
    "\n"
    "  --seconds S        duration of the measurement of each row, from 0.05 (2)\n"
    "  --contenders LIST  numbers of threads that want the lock, 1 to 1024 (1,2,4,16,64)\n"
    "  --processes LIST   numbers of processes that the contenders are spread over, 1 to 64 (1,4); never\n"
    "                     more than contenders\n"
    "  --own              only rows in which each contender has its own key, so that none waits for another\n"
    "  --shared           only rows in which all contenders want one key\n"
    "  --hold US          each holder sleeps so many microseconds (0); a grant that is held longer than its\n"
    "                     time to live is rightly lost\n"
    "  --json FILE        write the results as one JSON object; -: to standard output, and the table to\n"
    "                     standard error\n"
    "  --teaching         allow wrong locks: the lessons, and locks of one process between several\n"
    "  --help, --version\n"
    "\n"
    "A process opens the lock once and its threads share it, as in a service. A contender acquires the\n"
    "lock, does its work, releases the lock, and acquires it again at once. The table has:\n"
    "  pairs      acquired and released, a second\n"
    "  hand-overs changes of the holder, a second\n"
    "  waiting    the time that acquiring took; max includes contenders that still wait at the end\n"
    "  requests   that the lock sent to its stores, for each pair and each hand-over: commands of a Redis\n"
    "             (a script is one), RPCs of etcd, operations of ZooKeeper; no heartbeats\n"
    "  share      the smallest and the largest share of the pairs that a contender got, where 1 is fair;\n"
    "             then the same for a process\n"
    "  wrong      faults that no right lock allows. Holders work on memory that all processes share: two\n"
    "             holders at once meet there, or lose an update of its count. A fence must be larger than\n"
    "             the one before. A grant must last until its deadline or its release. 0 proves nothing for\n"
    "             a lock that is known to be wrong\n"
    "The keys are named lock-bench:...; what a lock keeps for ever, such as the fence of a key, stays in\n"
    "the store. Threads of a process may pass the lock on without a request to the store: to measure the\n"
    "store alone, use as many processes as contenders.\n"
    "\n"
    "Ctrl-C ends the run with the rows so far.\n"
    "\n"
    "exit status: 0 measured, no fault; 1 a lock was wrong; 2 bad usage or no such lock; 3 the store could\n"
    "not be used, or another failure; 130 ended by Ctrl-C\n";

/* Numbers from min to max, with commas between. */
static bool read_list(const struct flag *flag, const char *text, void *value) {
    struct bench_list list = {.count = 0};
    for (const char *at = text;; at++) {
        size_t digits = strspn(at, "0123456789");
        unsigned long number = strtoul(at, NULL, 10);
        if (digits == 0 || digits > 9 || number < 1 || (double)number > flag->max || list.count == BENCH_LIST)
            return false;
        list.numbers[list.count++] = (unsigned)number;
        at += digits;
        if (*at == '\0')
            break;
        if (*at != ',')
            return false;
    }
    *(struct bench_list *)value = list;
    return true;
}

#define VALUE(member) offsetof(struct bench_options, member)
static const struct flag flags[] = {
    {"URL", flag_read_texts, VALUE(urls), 0, 0, FLAG_TEXTS_MUST},
    {"--seconds", flag_read_decimal, VALUE(seconds), 0.05, 3600, NULL},
    {"--contenders", read_list, VALUE(contenders), 1, BENCH_CONTENDERS_MAX,
     "up to 16 numbers from 1 to 1024, with commas between"},
    {"--processes", read_list, VALUE(processes), 1, BENCH_PROCESSES_MAX,
     "up to 16 numbers from 1 to 64, with commas between"},
    {"--own", flag_read_switch, VALUE(own), 0, 0, NULL},
    {"--shared", flag_read_switch, VALUE(shared), 0, 0, NULL},
    {"--hold", flag_read_u32, VALUE(hold_us), 0, 10000000, "microseconds from 0 to 10000000"},
    {"--json", flag_read_text, VALUE(json), 0, 0, "the name of a file, or -"},
    {"--teaching", flag_read_switch, VALUE(teaching), 0, 0, NULL},
};

enum flags_status bench_options_read(char *const *argv, struct bench_options *options, char *error,
                                     size_t error_size) {
    struct bench_options read = {
        .seconds = 2,
        .contenders = {.numbers = {1, 2, 4, 16, 64}, .count = 5},
        .processes = {.numbers = {1, 4}, .count = 2},
    };
    enum flags_status status =
        flags_read(flags, sizeof flags / sizeof flags[0], argv, &read, error, error_size);
    if (status != FLAGS_RUN)
        return status;
    if (read.urls.count == 0) {
        snprintf(error, error_size, "which lock? Give its URL, as redis://127.0.0.1:6379");
        return FLAGS_WRONG;
    }
    if (!read.own && !read.shared)
        read.own = read.shared = true;
    *options = read;
    return FLAGS_RUN;
}

/* ---- cases ---- */

static bool is_planned(const struct bench_case *cases, unsigned count, const struct bench_case *one) {
    for (unsigned i = 0; i < count; i++)
        if (cases[i].shared == one->shared && cases[i].processes == one->processes &&
            cases[i].contenders == one->contenders)
            return true;
    return false;
}

unsigned bench_plan(const struct bench_options *options, const char *url, bool one_process,
                    struct bench_case cases[BENCH_CASES], bool *left_out) {
    unsigned count = 0;
    *left_out = false;
    for (int shared = 0; shared < 2; shared++) {
        for (unsigned p = 0; p < options->processes.count; p++) {
            for (unsigned c = 0; c < options->contenders.count; c++) {
                unsigned contenders = options->contenders.numbers[c];
                unsigned processes = options->processes.numbers[p];
                struct bench_case one = {.url = url,
                                         .shared = shared,
                                         .processes = processes < contenders ? processes : contenders,
                                         .contenders = contenders,
                                         .seconds = options->seconds,
                                         .hold_us = options->hold_us,
                                         .teaching = options->teaching};
                /* A single contender on the shared key is the same as on its own key. */
                bool wanted = shared ? options->shared && (contenders > 1 || !options->own) : options->own;
                if (!wanted || is_planned(cases, count, &one))
                    continue;
                if (one_process && shared && one.processes > 1)
                    *left_out = true;
                else
                    cases[count++] = one;
            }
        }
    }
    return count;
}

void bench_name(const char *url, char name[BENCH_NAME_SIZE]) {
    const char *address = strstr(url, "://");
    address = address ? address + 3 : url;
    const char *at = memrchr(address, '@', strcspn(address, "?"));
    snprintf(name, BENCH_NAME_SIZE, "%.*s%s", (int)(address - url), url, at ? at + 1 : address);
}
