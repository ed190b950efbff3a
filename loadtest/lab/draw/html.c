#include "loadtest/lab/draw/html.h"

#include <inttypes.h>
#include <string.h>

#include "loadtest/lab/draw/describe.h"
#include "loadtest/lab/draw/svg.h"
#include "loadtest/lab/draw/timeline.h"

static const char head[] =
    "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<style>:root{color-scheme:light dark}body{font:16px/1.5 Arial,Helvetica,'Liberation Sans',sans-serif;"
    "max-width:1240px;margin:0 auto;padding:16px}svg{max-width:100%;height:auto}"
    ".play{border-left:6px solid;padding:2px 14px;margin:12px "
    "0}.broken{border-color:#b3261e}.fixed{border-color:#1b6e3c}"
    "table{border-collapse:collapse;font-size:14px}td,th{padding:2px 10px;text-align:left;border-bottom:1px "
    "solid #8884}"
    "td.number{text-align:right;font-variant-numeric:tabular-nums}tr:target{outline:2px "
    "solid}code{font-size:15px}"
    "@media print{body{font-size:11px}details[open]{break-before:page}}</style>\n<title>";

static void write_verdict(FILE *out, const struct judged_play *played) {
    const struct event_log *play = &played->log;
    const struct event *verdict = &played->verdict;
    fprintf(out, "<section class=\"play %s\"><h2>%s: %s</h2><p>", play->play.play,
            strcmp(play->play.play, "fixed") == 0 ? "Fixed" : "Broken", verdict->outcome);
    svg_escape(out, verdict->sentence);
    fprintf(out,
            "</p><p>Two holders at once: %" PRId64 " ms. Oversold: %" PRId64
            ". Writes of two holders: %" PRId64 ". Late writes refused: %" PRId64 ".",
            verdict->overlap_ms, verdict->oversold, verdict->double_writes, verdict->refused_stale);
    for (int i = 0; i < EVENT_EVIDENCE && verdict->evidence[i] != 0; i++) {
        char id[32];
        describe_id(play, verdict->evidence[i], id);
        fprintf(out, "%s<a href=\"#%s\">%" PRIu64 "</a>", i == 0 ? " Evidence: event " : ", ", id,
                verdict->evidence[i]);
    }
    fputs("</p></section>\n", out);
}

static void write_table(FILE *out, const struct event_log *play) {
    fprintf(out, "<details><summary>The events, %s (%zu)</summary><table><tr><th>n<th>ms<th>who<th>what\n",
            play->play.play, play->count);
    for (size_t i = 0; i < play->count; i++) {
        const struct event *event = &play->events[i];
        char what[DESCRIBE_SIZE];
        describe_event(event, what);
        fprintf(out, "<tr><td class=\"number\">%" PRIu64 "<td class=\"number\">%.3f<td>", event->n,
                (double)event->t_ns / 1e6);
        svg_escape(out, event->who);
        fputs("<td>", out);
        svg_escape(out, what);
        fputc('\n', out);
    }
    fputs("</table></details>\n", out);
}

bool html_draw(FILE *out, const struct judged_play plays[], int count) {
    fputs(head, out);
    svg_escape(out, plays[0].log.play.scenario);
    fputs("</title></head><body><h1>", out);
    svg_escape(out, plays[0].log.play.scenario);
    fputs("</h1>\n", out);
    for (int i = 0; i < count; i++)
        write_verdict(out, &plays[i]);
    bool good = timeline_draw(out, plays, count);
    fputs("<p>To play it again: <code>seckill-lab run ", out);
    svg_escape(out, plays[0].log.play.scenario);
    fprintf(out, " --seed %" PRId64 "</code></p>\n", plays[0].log.play.seed);
    for (int i = 0; i < count; i++)
        write_table(out, &plays[i].log);
    fputs("</body></html>\n", out);
    return good;
}
