#include <stdlib.h>

#include "loadtest/judge/tally.h"
#include "loadtest/judge/verdict.h"
#include "loadtest/plan/item.h"

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Units that are left though buyers were told sold-out. It is known only if units never came back: no order
 * was returned, no hold could expire, the stock did not change, and no basket or transfer could hold units
 * for a moment. */
static int64_t undersold(const struct tally *t, const struct options *options, const struct books *before,
                         const struct books *after) {
    bool returns = t->returned > 0 || before->held > 0 || after->stock != before->stock ||
                   options->basket_lines > 0 || options->transfers > 0;
    int64_t left = larger(after->available, 0) / options->quantity * options->quantity;
    return returns ? 0 : smaller(left, t->told_sold_out);
}

/* An order that was returned when it was checked may or may not be in the audit before that, and a hold of
 * the first audit may have expired since: neither counts against the seller. */
static void compare(const struct tally *t, const struct options *options, const struct books *before,
                    const struct books *after, struct verdict *v) {
    int64_t quantity = options->quantity;
    int64_t least = (t->orders - t->returned) * quantity;
    int64_t most = (t->orders + t->unresolved) * quantity;
    int64_t taken = after->held + after->sold;

    v->oversold += larger(larger(after->oversold, 0), least + before->sold - after->stock);

    int64_t missing_units = least - (taken - before->sold);
    v->lost += larger(t->wrong, (missing_units + quantity - 1) / quantity);

    int64_t phantom_units = taken - before->held - before->sold - most;
    int64_t phantom_orders = after->orders - before->orders - t->orders - t->unresolved;
    v->phantom += larger(larger(phantom_orders, (phantom_units + quantity - 1) / quantity), 0);

    v->undersold += undersold(t, options, before, after);
    v->conserved = v->conserved && after->conserved;
}

/* Units that are where no transfer put them, or missing where one did. An unresolved transfer may or may not
 * have been carried out; in both cases the total stock stays the same. */
static int64_t unbalanced(const struct tally *tallies, const struct books *before, const struct books *after,
                          uint32_t count) {
    int64_t too_few = 0;
    int64_t too_many = 0;
    int64_t sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct tally *t = &tallies[i];
        int64_t change = after[i].stock - before[i].stock;
        too_few += larger(t->in - t->out - t->out_open - change, 0);
        too_many += larger(change - (t->in - t->out + t->in_open), 0);
        sum += change;
    }
    return larger(larger(too_few, too_many), sum < 0 ? -sum : sum);
}

static void compare_all(const struct tally *tallies, const struct options *options,
                        const struct books *before, const struct books *after, struct verdict *v) {
    uint32_t count = item_count(options);
    for (uint32_t i = 0; i < count; i++) {
        compare(&tallies[i], options, &before[i], &after[i], v);
    }
    if (options->transfers > 0) {
        v->unbalanced = unbalanced(tallies, before, after, count);
    }
}

bool verdict_reach(const struct request_log *log, const struct demand *demand, const struct books *before,
                   const struct books *after, struct verdict *verdict) {
    struct tally *tallies = calloc(item_count(demand->options), sizeof *tallies);
    if (tallies == NULL) {
        return false;
    }
    bool audited = before != NULL && after != NULL;
    struct tally_verdict found = tally_log(log, demand, tallies);
    struct verdict v = {
        .kind = VERDICT_CLEAN,
        .audited = audited,
        .conserved = audited,
        .duplicated = found.duplicated,
        .torn = found.torn,
        .unresolved = found.unresolved,
        .unchecked = found.unchecked,
        .unsent = found.unsent,
        .settled = found.settled,
    };
    if (audited) {
        compare_all(tallies, demand->options, before, after, &v);
    } else {
        v.lost = found.wrong;
    }
    free(tallies);
    int64_t wrong = v.oversold + v.lost + v.duplicated + v.phantom + v.undersold + v.torn + v.unbalanced;
    if (wrong > 0 || (v.audited && !v.conserved)) {
        v.kind = VERDICT_VIOLATED;
    } else if (!v.audited || v.unresolved + v.unchecked + v.unsent > 0 || v.settled == 0) {
        v.kind = VERDICT_INCONCLUSIVE;
    }
    *verdict = v;
    return true;
}
