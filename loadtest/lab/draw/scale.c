#include "loadtest/lab/draw/scale.h"

#include <stdlib.h>

enum { FOLD_TTLS = 3, TICKS = 12 };

static int by_time(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* `times` is sorted. A tenth of a gap stays visible at each side, so that one sees where it begins. */
static void find_folds(struct scale *scale, const int64_t *times, size_t count, int64_t fold_ns) {
    for (size_t i = 1; i < count && scale->fold_count < SCALE_FOLDS; i++) {
        int64_t gap_ns = times[i] - times[i - 1];
        if (gap_ns > fold_ns)
            scale->folds[scale->fold_count++] =
                (struct scale_fold){times[i - 1] + gap_ns / 10, times[i] - gap_ns / 10};
    }
}

/* A lease that ends a little after the last event is drawn to its end. */
static int64_t end_of_leases(const struct judged_play plays[], int count, int64_t last_ns) {
    int64_t end_ns = last_ns, most_ns = last_ns + last_ns / 10;
    for (int i = 0; i < count; i++) {
        for (size_t k = 0; k < plays[i].log.count; k++) {
            int64_t until_ns = plays[i].log.events[k].until_ns;
            if (until_ns > end_ns)
                end_ns = until_ns < most_ns ? until_ns : most_ns;
        }
    }
    return end_ns;
}

bool scale_fit(struct scale *scale, const struct judged_play plays[], int count, double left_px,
               double right_px) {
    struct scale fitted = {.left_px = left_px, .right_px = right_px, .end_ns = 1000000};
    size_t all = 0, filled = 0;
    int64_t fold_ns = INT64_MAX;
    for (int i = 0; i < count; i++)
        all += plays[i].log.count;
    int64_t *times = calloc(all + 1, sizeof *times);
    if (times == NULL)
        return false;
    for (int i = 0; i < count; i++) {
        for (size_t k = 0; k < plays[i].log.count; k++)
            times[filled++] = plays[i].log.events[k].t_ns;
        if (plays[i].log.play.ttl_ms > 0)
            fold_ns = FOLD_TTLS * plays[i].log.play.ttl_ms * 1000000;
    }
    qsort(times, filled, sizeof *times, by_time);
    if (filled > 0 && times[filled - 1] > fitted.end_ns)
        fitted.end_ns = times[filled - 1];
    fitted.end_ns = end_of_leases(plays, count, fitted.end_ns);
    find_folds(&fitted, times, filled, fold_ns);
    free(times);
    int64_t shown_ns = fitted.end_ns;
    for (int i = 0; i < fitted.fold_count; i++)
        shown_ns -= fitted.folds[i].to_ns - fitted.folds[i].from_ns;
    fitted.px_per_ns = (right_px - left_px - fitted.fold_count * (double)SCALE_FOLD_PX) / (double)shown_ns;
    fitted.tick_ns = 1000;
    for (int i = 0; shown_ns / fitted.tick_ns > TICKS; i++)
        fitted.tick_ns = i % 3 == 1 ? fitted.tick_ns / 2 * 5 : fitted.tick_ns * 2;
    *scale = fitted;
    return true;
}

double scale_x(const struct scale *scale, int64_t t_ns) {
    double x = scale->left_px;
    int64_t from_ns = 0;
    for (int i = 0; i < scale->fold_count && t_ns > scale->folds[i].from_ns; i++) {
        const struct scale_fold *fold = &scale->folds[i];
        x += (double)(fold->from_ns - from_ns) * scale->px_per_ns;
        if (t_ns < fold->to_ns) /* within the break */
            return x + SCALE_FOLD_PX * (double)(t_ns - fold->from_ns) / (double)(fold->to_ns - fold->from_ns);
        x += SCALE_FOLD_PX;
        from_ns = fold->to_ns;
    }
    return x + (double)(t_ns - from_ns) * scale->px_per_ns;
}

int64_t scale_next_tick(const struct scale *scale, int64_t t_ns) {
    int64_t tick_ns = t_ns < 0 ? 0 : t_ns + scale->tick_ns;
    for (int i = 0; i < scale->fold_count; i++) {
        const struct scale_fold *fold = &scale->folds[i];
        if (tick_ns >= fold->from_ns && tick_ns <= fold->to_ns)
            tick_ns = (fold->to_ns / scale->tick_ns + 1) * scale->tick_ns;
    }
    return tick_ns <= scale->end_ns ? tick_ns : -1;
}
