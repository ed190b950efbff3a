/* Evidence: the numbers of the events that show what was judged. */
#ifndef LOADTEST_LAB_JUDGE_EVIDENCE_H
#define LOADTEST_LAB_JUDGE_EVIDENCE_H

#include "loadtest/lab/events/event.h"

/* Adds `n`, unless it is 0, is there, or there is no room. */
void evidence_add(uint64_t evidence[EVENT_EVIDENCE], uint64_t n);
void evidence_sort(uint64_t evidence[EVENT_EVIDENCE]);

#endif
