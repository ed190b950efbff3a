#include "lock/bench/options.h"

#include <ctype.h>
#include <getopt.h>
#include <stdio.h>
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

enum flag {
    FLAG_SECONDS = 256,
    FLAG_CONTENDERS,
    FLAG_PROCESSES,
    FLAG_OWN,
    FLAG_SHARED,
    FLAG_HOLD,
    FLAG_JSON,
    FLAG_TEACHING,
    FLAG_HELP,
    FLAG_VERSION
};

static const struct option flags[] = {
    {"seconds", required_argument, NULL, FLAG_SECONDS},
    {"contenders", required_argument, NULL, FLAG_CONTENDERS},
    {"processes", required_argument, NULL, FLAG_PROCESSES},
    {"own", no_argument, NULL, FLAG_OWN},
    {"shared", no_argument, NULL, FLAG_SHARED},
    {"hold", required_argument, NULL, FLAG_HOLD},
    {"json", required_argument, NULL, FLAG_JSON},
    {"teaching", no_argument, NULL, FLAG_TEACHING},
    {"help", no_argument, NULL, FLAG_HELP},
    {"version", no_argument, NULL, FLAG_VERSION},
    {NULL, 0, NULL, 0},
};

struct parse {
    struct bench_options *options;
    char *error;
    size_t error_size;
};

static bool wrong(const struct parse *parse, const char *flag, const char *must) {
    snprintf(parse->error, parse->error_size, "%s must be %s", flag, must);
    return false;
}

/* Digits, up to the end or a comma. */
static bool read_number(const char **text, unsigned min, unsigned max, unsigned *number) {
    size_t length = strspn(*text, "0123456789");
    if (length == 0 || length > 9 || ((*text)[length] != '\0' && (*text)[length] != ','))
        return false;
    unsigned value = (unsigned)strtoul(*text, NULL, 10);
    *text += length;
    *number = value;
    return value >= min && value <= max;
}

static bool read_list(const struct parse *parse, const char *flag, unsigned max, struct bench_list *list) {
    char must[80];
    snprintf(must, sizeof must, "up to %d numbers from 1 to %u, with commas between", BENCH_LIST, max);
    list->count = 0;
    for (const char *at = optarg;; at++) {
        if (list->count == BENCH_LIST || !read_number(&at, 1, max, &list->numbers[list->count]))
            return wrong(parse, flag, must);
        list->count++;
        if (*at == '\0')
            return true;
    }
}

static bool read_seconds(double *seconds) {
    char *end;
    *seconds = strtod(optarg, &end);
    return isdigit((unsigned char)optarg[0]) && *end == '\0' && *seconds >= 0.05 && *seconds <= 3600;
}

static bool read_flag(const struct parse *parse, int flag) {
    struct bench_options *o = parse->options;
    const char *at = optarg;
    switch (flag) {
    case FLAG_SECONDS:
        return read_seconds(&o->seconds) || wrong(parse, "--seconds", "a number from 0.05 to 3600");
    case FLAG_CONTENDERS: return read_list(parse, "--contenders", BENCH_CONTENDERS_MAX, &o->contenders);
    case FLAG_PROCESSES: return read_list(parse, "--processes", BENCH_PROCESSES_MAX, &o->processes);
    case FLAG_OWN: o->own = true; return true;
    case FLAG_SHARED: o->shared = true; return true;
    case FLAG_HOLD:
        return (read_number(&at, 0, 10000000, &o->hold_us) && *at == '\0') ||
               wrong(parse, "--hold", "microseconds from 0 to 10000000");
    case FLAG_JSON:
        o->json = optarg;
        return optarg[0] != '\0' || wrong(parse, "--json", "the name of a file, or -");
    case FLAG_TEACHING: o->teaching = true; return true;
    default: return false;
    }
}

static bool take_urls(const struct parse *parse, int count, char **urls) {
    struct bench_options *o = parse->options;
    if (count == 0)
        snprintf(parse->error, parse->error_size, "which lock? Give its URL, as redis://127.0.0.1:6379");
    else if (count > BENCH_URLS)
        snprintf(parse->error, parse->error_size, "more than %d locks", BENCH_URLS);
    else
        for (int i = 0; i < count; i++)
            o->urls[o->url_count++] = urls[i];
    return o->url_count > 0;
}

static void explain_failure(int flag, char **argv, char *error, size_t error_size) {
    char letter[] = {'-', (char)optopt, '\0'};
    bool is_letter = optopt > 0 && optopt < FLAG_SECONDS;
    snprintf(error, error_size, flag == ':' ? "%s needs a value" : "%s is no option, or not with a value",
             is_letter ? letter : argv[optind - 1]);
}

enum bench_options_status bench_options_parse(int argc, char **argv, struct bench_options *options,
                                              char *error, size_t error_size) {
    struct bench_options parsed = {
        .seconds = 2,
        .contenders = {.numbers = {1, 2, 4, 16, 64}, .count = 5},
        .processes = {.numbers = {1, 4}, .count = 2},
    };
    struct parse parse = {.options = &parsed, .error = error, .error_size = error_size};
    int flag = 0;
    opterr = 0;
    optind = 0;
    while ((flag = getopt_long(argc, argv, ":", flags, NULL)) != -1) {
        if (flag == FLAG_HELP || flag == FLAG_VERSION)
            return flag == FLAG_HELP ? BENCH_HELP : BENCH_SHOW_VERSION;
        if (flag == ':' || flag == '?') {
            explain_failure(flag, argv, error, error_size);
            return BENCH_WRONG;
        }
        if (!read_flag(&parse, flag))
            return BENCH_WRONG;
    }
    if (!take_urls(&parse, argc - optind, argv + optind))
        return BENCH_WRONG;
    if (!parsed.own && !parsed.shared)
        parsed.own = parsed.shared = true;
    *options = parsed;
    return BENCH_RUN;
}
