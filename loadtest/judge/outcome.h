/* The outcome of a request: what an answer, or none, means for its line of the request log. */
#ifndef LOADTEST_JUDGE_OUTCOME_H
#define LOADTEST_JUDGE_OUTCOME_H

#include "loadtest/http/connection_pool.h"
#include "loadtest/judge/request_log.h"
#include "loadtest/plan/demand.h"

/* Records the outcome of one attempt. The line is not in flight any more afterwards. True: it is accepted or
 * rejected. */
bool outcome_record(const struct demand *demand, struct request_log *log, struct log_line *line,
                    const struct pool_answer *answer);

#endif
