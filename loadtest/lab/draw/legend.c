#include "loadtest/lab/draw/legend.h"

#include "loadtest/lab/draw/svg.h"

enum { LEFT_PX = 30, LINE_PX = 26, SAMPLE_PX = 26, TEXT_PX = 34, APART_PX = 20 };

/* What is not a kind of event. */
enum { AFTER = EVENT_KINDS, BAND };

enum shape { BAR, LINE, DIAMOND, TICK, DOT };

static const struct sample {
    int what;
    enum shape shape;
    const char *class, *text;
} samples[] = {
    {EVENT_ACQUIRE_SENT, LINE, "c0 wait", "waits"},
    {EVENT_ACQUIRE_OK, BAR, "c0 lease", "lease, by the client's clock"},
    {EVENT_ACQUIRE_OK, BAR, "c0", "believes that it holds"},
    {EVENT_ACQUIRE_UNKNOWN, BAR, "c0 lease possible", "perhaps it holds"},
    {AFTER, BAR, "after", "goes on after the lease"},
    {EVENT_RENEW_OK, TICK, "tick", "renewed"},
    {EVENT_HOLDER_PAUSED, BAR, "pause", "paused"},
    {EVENT_NOTE, DOT, "dot", "note"},
    {EVENT_WRITE_ACCEPTED, DIAMOND, "write", "write accepted"},
    {EVENT_WRITE_REFUSED, DIAMOND, "refused", "write refused"},
    {EVENT_WRITE_UNKNOWN, DIAMOND, "open", "write without an answer"},
    {BAND, BAR, "band", "two believe at once"},
    {EVENT_SERVER_DOWN, BAR, "down", "server down"},
};

static bool occurs_in(const struct judged_play *play, const struct view_play *view, int what) {
    if (what == BAND)
        return play->judgement.holds.overlap_count > 0;
    for (size_t i = 0; what == AFTER && i < play->judgement.holds.count; i++) {
        const struct hold *hold = &play->judgement.holds.holds[i];
        if (view->to_ns[hold->begun_n - 1] > hold->until_ns)
            return true;
    }
    for (size_t i = 0; i < play->log.count; i++) {
        if ((int)play->log.events[i].kind == what)
            return true;
    }
    return false;
}

static void draw_sample(FILE *out, const struct sample *sample, double x, double top) {
    double middle = x + SAMPLE_PX / 2.0;
    switch (sample->shape) {
    case BAR: svg_rect(out, sample->class, x, top, SAMPLE_PX, 16, 3); break;
    case LINE: svg_line(out, sample->class, x, top + 8, x + SAMPLE_PX, top + 8); break;
    case DIAMOND: svg_diamond(out, sample->class, middle, top + 8, 8); break;
    case TICK: svg_line(out, sample->class, middle, top + 3, middle, top + 13); break;
    case DOT: svg_circle(out, sample->class, middle, top + 8, 4); break;
    }
    if (sample->what == EVENT_WRITE_REFUSED) {
        svg_line(out, "cross", middle - 4, top + 4, middle + 4, top + 12);
        svg_line(out, "cross", middle - 4, top + 12, middle + 4, top + 4);
    }
    svg_text(out, "soft", x + TEXT_PX, top + 12, SVG_START, sample->text);
}

double legend_draw(FILE *out, const struct judged_play plays[], int count, const struct view *view,
                   double top_px, double right_px) {
    double x = LEFT_PX;
    for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++) {
        double width = TEXT_PX + svg_text_width(samples[i].text, 12, false);
        bool occurs = false;
        for (int k = 0; k < count; k++)
            occurs = occurs || occurs_in(&plays[k], &view->plays[k], samples[i].what);
        if (!occurs)
            continue;
        if (x + width > right_px) {
            x = LEFT_PX;
            top_px += LINE_PX;
        }
        draw_sample(out, &samples[i], x, top_px);
        x += width + APART_PX;
    }
    fputc('\n', out);
    return top_px + (x > LEFT_PX ? LINE_PX : 0);
}
