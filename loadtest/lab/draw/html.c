#include "loadtest/lab/draw/html.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "loadtest/lab/draw/describe.h"
#include "loadtest/lab/draw/document.h"
#include "loadtest/lab/draw/svg.h"
#include "loadtest/lab/draw/timeline.h"

/* ---- the table of events ---- */

/* Returns whether the table has this event: it is drawn, or it is evidence. */
static bool rows_has(const struct judged_play *play, const struct view_play *view,
                     const struct event *event) {
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

/* Draws the events of a play as a table. If some are left out, the table says which file has them. */
static void rows_draw(FILE *out, const struct judged_play *play, const struct view_play *view) {
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

/* ---- verdicts ---- */

static bool is_fixed(const struct judged_play *played) {
    return strcmp(played->log.play.play, "fixed") == 0;
}

/* To the mark of the event; if it has none, to its row in the table. */
static void write_evidence(FILE *out, const struct judged_play *played, const struct view_play *view,
                           const char *picture) {
    const uint64_t *evidence = played->verdict.evidence;
    for (int i = 0; i < EVENT_EVIDENCE && evidence[i] != 0; i++) {
        char mark[32], id[48], what[DESCRIBE_SIZE];
        fputs(i == 0 ? "<p>Evidence:</p><ul>\n" : "", out);
        if (evidence[i] > played->log.count) { /* recorded wrongly, or the file was cut */
            fprintf(out, "<li>event %" PRIu64 ", which is not in the file</li>\n", evidence[i]);
            continue;
        }
        const struct event *event = &played->log.events[evidence[i] - 1];
        describe_id(&played->log, evidence[i], mark);
        describe_whole(event, what);
        snprintf(id, sizeof id, " id=\"%s\"", mark);
        if (strstr(picture, id))
            fprintf(out, "<li><a href=\"#%s\">event %" PRIu64 "</a>: ", mark, event->n);
        else if (rows_has(played, view, event))
            fprintf(out, "<li><a href=\"#row-%s\">event %" PRIu64 "</a>: ", mark, event->n);
        else
            fprintf(out, "<li>event %" PRIu64 ": ", event->n);
        svg_escape(out, what);
        fputs("</li>\n", out);
    }
    fputs(evidence[0] != 0 ? "</ul>\n" : "", out);
}

/* Of what was counted, that which is not none. */
static void write_count(FILE *out, bool *any, const char *what, int64_t count, const char *unit) {
    if (count == 0)
        return;
    fprintf(out, "%s%s: %" PRId64 "%s", *any ? "; " : "<p>Counted: ", what, count, unit);
    *any = true;
}

static void write_counts(FILE *out, const struct event *verdict) {
    bool any = false;
    write_count(out, &any, "two holders at once", verdict->overlap_ms, " ms");
    write_count(out, &any, "oversold", verdict->oversold, "");
    write_count(out, &any, "writes of two holders", verdict->double_writes, "");
    write_count(out, &any, "late writes refused", verdict->refused_stale, "");
    fputs(any ? ".</p>\n" : "", out);
}

static void write_verdict(FILE *out, const struct judged_play *played, const struct view_play *view,
                          const char *picture) {
    const struct event *verdict = &played->verdict;
    bool good;
    const char *means = document_outcome(verdict->outcome, &good);
    fprintf(out, "<section class=\"play %s\"><h3>%s: ", played->log.play.play,
            is_fixed(played) ? "Fixed" : "Broken");
    svg_escape(out, verdict->outcome);
    fprintf(out, "</h3>\n<p><span class=\"%s\">%s</span>", good ? "good" : "wrong", means);
    fputs(". ", out);
    svg_escape(out, verdict->sentence);
    fputs("</p>\n", out);
    if (strcmp(verdict->outcome, "setup-failed") != 0)
        write_counts(out, verdict);
    write_evidence(out, played, view, picture);
    fputs("</section>\n", out);
}

/* ---- the rest ---- */

static void write_part(FILE *out, const char *head, const char *text, const char *class) {
    if (!text || *text == '\0')
        return;
    fprintf(out, "<section class=\"%s\"><h2>%s</h2>\n", class, head);
    document_paragraphs(out, text);
    fputs("</section>\n", out);
}

static void write_steps(FILE *out, const struct judged_play plays[], int count) {
    bool begun = false;
    for (int i = 0; i < count; i++) {
        struct steps steps;
        steps_find(&plays[i].log, &steps);
        if (steps.count == 0)
            continue;
        fputs(begun ? "" : "<section><h2>Step by step</h2>\n<div class=\"pair\">\n", out);
        begun = true;
        fprintf(out, "<div><h3>%s</h3><ol>\n", is_fixed(&plays[i]) ? "Fixed" : "Broken");
        for (int k = 0; k < steps.count; k++) {
            fputs("<li>", out);
            svg_escape(out, steps.texts[k]);
            fputs("</li>\n", out);
        }
        fputs("</ol>", out);
        if (steps.more > 0)
            fprintf(out, "<p>and %zu more</p>", steps.more);
        fputs("</div>\n", out);
    }
    fputs(begun ? "</div></section>\n" : "", out);
}

static void write_question(FILE *out, const struct report_text *text) {
    if (!text->question)
        return;
    fputs("<section class=\"ask\"><h2>What will happen?</h2>\n", out);
    document_paragraphs(out, text->question);
    if (text->answers[0]) {
        fputs("<ol>\n", out);
        for (int i = 0; i < REPORT_ANSWERS; i++) {
            document_element(out, "li", "", text->answers[i]);
            fputc('\n', out);
        }
        fputs("</ol>\n<details><summary>The answer</summary>\n", out);
        document_paragraphs(out, text->answers[text->right]);
        fputs("</details>", out);
    }
    fputs("</section>\n", out);
}

static void write_code(FILE *out, const struct report_text *text) {
    if (!text->broken_code && !text->fixed_code)
        return;
    fputs("<section><h2>The code</h2>\n<div class=\"pair\">\n", out);
    if (text->broken_code) {
        fputs("<div><h3>Broken</h3>\n", out);
        document_code(out, text->broken_code, text->broken_lines, "here it goes wrong");
        fputs("</div>\n", out);
    }
    if (text->fixed_code) {
        fputs("<div><h3>Fixed</h3>\n", out);
        document_code(out, text->fixed_code, text->fixed_lines, "this mends it");
        fputs("</div>\n", out);
    }
    fputs("</div></section>\n", out);
}

static void write_command(FILE *out, const struct event_play *play) {
    fputs("<section><h2>Play it again</h2>\n<p><code>seckill-lab run ", out);
    svg_escape(out, play->scenario);
    fprintf(out, " --seed %" PRId64 "</code></p>\n", play->seed);
    fprintf(out, "<p class=\"note\">Seed %" PRId64 ", time to live %" PRId64 " ms</p></section>\n",
            play->seed, play->ttl_ms);
}

static void write_report(FILE *out, const struct judged_play plays[], int count, const struct view *view,
                         const struct report_text *text, const char *picture) {
    const char *name = plays[0].log.play.scenario;
    document_begin(out, text->title ? text->title : name);
    document_element(out, "h1", "", text->title ? text->title : name);
    document_element(out, "p", "class=\"about\"", name);
    fputc('\n', out);
    write_question(out, text);
    write_part(out, "The story", text->story, "story");
    fputs("<section><h2>What happened</h2>\n<div class=\"pair\">\n", out);
    for (int i = 0; i < count; i++)
        write_verdict(out, &plays[i], &view->plays[i], picture);
    fputs("</div></section>\n<section><h2>The picture</h2>\n"
          "<a class=\"skip\" href=\"#behind\">Skip the marks of the picture</a>\n<figure>\n",
          out);
    fputs(picture, out);
    fputs("</figure><div id=\"behind\"></div></section>\n", out);
    write_steps(out, plays, count);
    write_code(out, text);
    fputs("<section><h2>The events</h2>\n", out);
    for (int i = 0; i < count; i++)
        rows_draw(out, &plays[i], &view->plays[i]);
    fputs("</section>\n", out);
    if (text->title)
        write_command(out, &plays[0].log.play);
    document_end(out);
}

bool html_draw(FILE *out, const struct judged_play plays[], int count, const struct report_text *text) {
    static const struct report_text none = {.title = NULL};
    char *picture = NULL;
    size_t size = 0;
    struct view view;
    FILE *drawn = open_memstream(&picture, &size);
    bool good = drawn && timeline_draw(drawn, plays, count);
    good = drawn && fclose(drawn) == 0 && good;
    if (good && (good = view_make(&view, plays, count))) {
        write_report(out, plays, count, &view, text ? text : &none, picture);
        view_free(&view);
    }
    free(picture);
    return good;
}
