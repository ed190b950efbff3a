#include "loadtest/lab/judge/evidence.h"

#include <stdlib.h>

void evidence_add(uint64_t evidence[EVENT_EVIDENCE], uint64_t n) {
    int at = 0;
    while (at < EVENT_EVIDENCE && evidence[at] != 0 && evidence[at] != n)
        at++;
    if (at < EVENT_EVIDENCE)
        evidence[at] = evidence[at] != 0 ? evidence[at] : n;
}

static int by_number(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

void evidence_sort(uint64_t evidence[EVENT_EVIDENCE]) {
    size_t count = 0;
    while (count < EVENT_EVIDENCE && evidence[count] != 0)
        count++;
    qsort(evidence, count, sizeof evidence[0], by_number);
}
