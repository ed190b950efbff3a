/* What the answer to a request means for the ledger. */
#ifndef LOADTEST_JUDGE_ANSWER_H
#define LOADTEST_JUDGE_ANSWER_H

#include "loadtest/http/client_pool.h"
#include "loadtest/judge/request_log.h"
#include "loadtest/plan/demand.h"

/* Writes what one try came to into its line. Afterwards the line is not open any more. */
void answer_judge(const struct demand *demand, struct ledger *ledger, struct ledger_line *line,
                  const struct pool_answer *answer);

#endif
