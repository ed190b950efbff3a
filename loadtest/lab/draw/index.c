#include "loadtest/lab/draw/index.h"

#include <inttypes.h>
#include <string.h>

#include "loadtest/lab/draw/document.h"
#include "loadtest/lab/draw/svg.h"

static void write_play(FILE *out, const char *outcome, const char *sentence) {
    bool good = false;
    fputs("<td>", out);
    if (outcome == NULL) {
        fputs("not played</td>", out);
        return;
    }
    document_outcome(outcome, &good);
    document_element(out, "span", good ? "class=\"good\"" : "class=\"wrong\"", outcome);
    if (sentence != NULL) {
        fputs("<br>", out);
        svg_escape(out, sentence);
    }
    fputs("</td>", out);
}

static void write_row(FILE *out, const struct index_row *row) {
    fputs("<tr><th scope=\"row\"><a href=\"", out);
    svg_escape(out, row->name);
    fputs("/report.html\">", out);
    svg_escape(out, row->name);
    fputs("</a><br><span class=\"about\">", out);
    svg_escape(out, row->title != NULL ? row->title : "");
    fputs("</span></th>", out);
    write_play(out, row->broken_outcome, row->broken_sentence);
    if (row->broken_outcome != NULL && strcmp(row->broken_outcome, "setup-failed") != 0)
        fprintf(out, "<td class=\"number\">%" PRId64 " ms</td><td class=\"number\">%" PRId64 "</td>",
                row->overlap_ms, row->oversold);
    else
        fputs("<td></td><td></td>", out);
    write_play(out, row->fixed_outcome, row->fixed_sentence);
    fprintf(out, "<td class=\"%s\">%s</td></tr>\n", row->taught ? "good" : "wrong",
            row->taught ? "yes" : "no");
}

/* One seed for all, or none that could be named. */
static void write_summary(FILE *out, const struct index_row rows[], int count) {
    int taught = 0, same = 0;
    for (int i = 0; i < count; i++) {
        taught += rows[i].taught;
        same += rows[i].seed == rows[0].seed;
    }
    fprintf(out, "<p><strong>%d of %d lessons did what they teach</strong>", taught, count);
    if (count > 0 && same == count)
        fprintf(out, ", with seed %" PRId64, rows[0].seed);
    fputs(".</p>\n", out);
}

void index_draw(FILE *out, const struct index_row rows[], int count) {
    document_begin(out, "How a sale goes wrong: the lessons");
    fputs("<h1>How a sale goes wrong</h1>\n", out);
    write_summary(out, rows, count);
    fputs(
        "<p class=\"note\">Each lesson is played twice: broken, where the fault is to show, and fixed, where "
        "the "
        "fix is to hold.</p>\n<div class=\"wide\"><table class=\"lessons\"><caption>The lessons</caption>\n"
        "<thead><tr><th scope=\"col\">Lesson</th><th scope=\"col\">Broken</th>"
        "<th scope=\"col\" class=\"number\">Two holders</th><th scope=\"col\" class=\"number\">Oversold</th>"
        "<th scope=\"col\">Fixed</th><th scope=\"col\">Taught</th></tr></thead>\n<tbody>\n",
        out);
    for (int i = 0; i < count; i++)
        write_row(out, &rows[i]);
    fputs("</tbody></table></div>\n", out);
    document_end(out);
}
