/* What the answer to a request means for the ledger. */
#ifndef LOADTEST_ANSWER_H
#define LOADTEST_ANSWER_H

#include "loadtest/demand.h"
#include "loadtest/ledger.h"
#include "loadtest/pool.h"

/* Writes what one try came to into its line. Afterwards the line is not open any more. */
void answer_judge(const struct demand *demand, struct ledger *ledger, struct ledger_line *line,
                  const struct pool_answer *answer);

#endif
