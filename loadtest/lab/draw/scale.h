/* The time axis: from left to right in true scale. A gap in which nothing happens in any play, longer than
 * three times to live, is folded into a short break; so is what lies between the windows of a view. */
#ifndef LOADTEST_LAB_DRAW_SCALE_H
#define LOADTEST_LAB_DRAW_SCALE_H

#include "loadtest/lab/draw/view.h"

enum { SCALE_FOLDS = 16, SCALE_FOLD_PX = 28 };

struct scale {
    double left_px, right_px;
    double px_per_ns; /* outside of folds */
    int64_t end_ns;
    struct scale_fold {
        int64_t from_ns, to_ns;
    } folds[SCALE_FOLDS];
    int fold_count;
    int64_t tick_ns; /* between two ticks: 1, 2 or 5 times a power of ten */
};

/* One axis for all plays. False when out of memory. */
bool scale_fit(struct scale *scale, const struct judged_play plays[], int count, const struct view *view,
               double left_px, double right_px);

double scale_x(const struct scale *scale, int64_t t_ns);

/* The next tick after `t_ns` (-1: the first) that is not within a fold; -1: there is none. */
int64_t scale_next_tick(const struct scale *scale, int64_t t_ns);

#endif
