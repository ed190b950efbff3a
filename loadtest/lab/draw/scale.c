#include "loadtest/lab/draw/scale.h"

#include <stdlib.h>

enum { FOLD_TTLS = 3, TICKS = 12 };

static int by_time(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void add_fold(struct scale *scale, int64_t from_ns, int64_t to_ns) {
    to_ns = to_ns < scale->end_ns ? to_ns : scale->end_ns;
    if (scale->fold_count < SCALE_FOLDS && from_ns < to_ns)
        scale->folds[scale->fold_count++] = (struct scale_fold){from_ns, to_ns};
}

static int by_begin(const void *a, const void *b) {
    const struct scale_fold *x = a, *y = b;
    return (x->from_ns > y->from_ns) - (x->from_ns < y->from_ns);
}

/* `times` is sorted. A tenth of a gap stays visible at each side, so that one sees where it begins. */
static void find_folds(struct scale *scale, const struct view *view, const int64_t *times, size_t count,
                       int64_t fold_ns) {
    for (int i = 1; i < view->window_count; i++)
        add_fold(scale, view->windows[i - 1].to_ns, view->windows[i].from_ns);
    for (size_t i = 1; i < count; i++) {
        int64_t gap_ns = times[i] - times[i - 1];
        if (gap_ns > fold_ns && view_window_of(view, times[i]) == view_window_of(view, times[i - 1]))
            add_fold(scale, times[i - 1] + gap_ns / 10, times[i] - gap_ns / 10);
    }
    qsort(scale->folds, (size_t)scale->fold_count, sizeof scale->folds[0], by_begin);
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

/* The times of all events in the windows, sorted. */
static size_t find_times(int64_t *times, const struct judged_play plays[], int count,
                         const struct view *view) {
    size_t filled = 0;
    for (int i = 0; i < count; i++) {
        for (size_t k = 0; k < plays[i].log.count; k++) {
            if (view_window_of(view, plays[i].log.events[k].t_ns) >= 0)
                times[filled++] = plays[i].log.events[k].t_ns;
        }
    }
    qsort(times, filled, sizeof *times, by_time);
    return filled;
}

/* Once the folds are known. */
static void stretch(struct scale *scale) {
    int64_t shown_ns = scale->end_ns;
    for (int i = 0; i < scale->fold_count; i++)
        shown_ns -= scale->folds[i].to_ns - scale->folds[i].from_ns;
    shown_ns = shown_ns > 0 ? shown_ns : 1;
    double px = scale->right_px - scale->left_px - scale->fold_count * (double)SCALE_FOLD_PX;
    scale->px_per_ns = px / (double)shown_ns;
    scale->tick_ns = 1000;
    for (int i = 0; shown_ns / scale->tick_ns > TICKS; i++)
        scale->tick_ns = i % 3 == 1 ? scale->tick_ns / 2 * 5 : scale->tick_ns * 2;
}

bool scale_fit(struct scale *scale, const struct judged_play plays[], int count, const struct view *view,
               double left_px, double right_px) {
    struct scale fitted = {.left_px = left_px, .right_px = right_px, .end_ns = 1000000};
    size_t all = 0;
    int64_t fold_ns = INT64_MAX;
    for (int i = 0; i < count; i++) {
        all += plays[i].log.count;
        if (plays[i].log.play.ttl_ms > 0)
            fold_ns = FOLD_TTLS * plays[i].log.play.ttl_ms * 1000000;
    }
    int64_t *times = calloc(all + 1, sizeof *times);
    if (times == NULL)
        return false;
    size_t filled = find_times(times, plays, count, view);
    if (filled > 0 && times[filled - 1] > fitted.end_ns)
        fitted.end_ns = times[filled - 1];
    fitted.end_ns = end_of_leases(plays, count, fitted.end_ns);
    find_folds(&fitted, view, times, filled, fold_ns);
    free(times);
    stretch(&fitted);
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
