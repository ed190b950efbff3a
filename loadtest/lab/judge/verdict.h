/* The verdict in words. */
#ifndef LOADTEST_LAB_JUDGE_VERDICT_H
#define LOADTEST_LAB_JUDGE_VERDICT_H

#include "loadtest/lab/judge/judge.h"

/* Says what was found, the most important first. ASCII, whatever the names in the events. */
void verdict_explain(const struct judgement *judgement, char sentence[JUDGE_SENTENCE_SIZE]);

#endif
