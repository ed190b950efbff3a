#include "lock/bench/plan.h"

#include <stdio.h>
#include <string.h>

static bool is_planned(const struct bench_case *cases, unsigned count, const struct bench_case *one) {
    for (unsigned i = 0; i < count; i++)
        if (cases[i].shared == one->shared && cases[i].processes == one->processes &&
            cases[i].contenders == one->contenders)
            return true;
    return false;
}

/* A single contender on the shared key is the same as on its own key. */
static bool is_wanted(const struct bench_options *options, const struct bench_case *one) {
    if (one->shared)
        return options->shared && (one->contenders > 1 || !options->own);
    return options->own;
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
                if (!is_wanted(options, &one) || is_planned(cases, count, &one))
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
