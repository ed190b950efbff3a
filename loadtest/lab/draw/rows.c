#include "loadtest/lab/draw/rows.h"

#include <inttypes.h>

#include "loadtest/lab/draw/describe.h"
#include "loadtest/lab/draw/svg.h"

bool rows_has(const struct judged_play *play, const struct view_play *view, const struct event *event) {
    if (view->shown[event - play->log.events])
        return true;
    for (int i = 0; i < EVENT_EVIDENCE && play->verdict.evidence[i] != 0; i++) {
        if (play->verdict.evidence[i] == event->n)
            return true;
    }
    return false;
}

static void write_row(FILE *out, const struct event_log *log, const struct event *event) {
    char id[32], what[DESCRIBE_SIZE];
    describe_id(log, event->n, id);
    describe_event(event, what);
    fprintf(out,
            "<tr id=\"row-%s\"><th scope=\"row\" class=\"number\">%" PRIu64
            "</th><td class=\"number\">%.3f</td><td>",
            id, event->n, (double)event->t_ns / 1e6);
    svg_escape(out, event->who);
    fputs("</td><td>", out);
    svg_escape(out, what);
    fputs("</td></tr>\n", out);
}

void rows_draw(FILE *out, const struct judged_play *play, const struct view_play *view) {
    const struct event_log *log = &play->log;
    char all[32], left_out[32];
    describe_count(log->count, all);
    describe_count(view->left_out, left_out);
    fprintf(out, "<details><summary>The events of the %s play (%s)</summary>\n", log->play.play, all);
    if (view->left_out > 0)
        fprintf(out,
                "<p>%s of them are not here: these are the ones that are drawn. All are in "
                "<code>events.%s.jsonl</code>.</p>\n",
                left_out, log->play.play);
    fprintf(out,
            "<div class=\"wide\"><table><caption>What happened in the %s play</caption>\n<thead><tr>"
            "<th scope=\"col\" class=\"number\">n</th><th scope=\"col\" class=\"number\">ms</th>"
            "<th scope=\"col\">who</th><th scope=\"col\">what</th></tr></thead>\n<tbody>\n",
            log->play.play);
    for (size_t i = 0; i < log->count; i++) {
        if (rows_has(play, view, &log->events[i]))
            write_row(out, log, &log->events[i]);
    }
    fputs("</tbody></table></div></details>\n", out);
}
