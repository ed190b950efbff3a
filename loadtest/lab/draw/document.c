#include "loadtest/lab/draw/document.h"

#include <inttypes.h>
#include <string.h>

#include "loadtest/lab/draw/svg.h"

/* In the dark and in print the same colours as in the picture. */
static const char style[] =
    ":root{color-scheme:light dark;--ink:#17191c;--soft:#5b6067;--line:#d5d9df;--back:#fff;--box:#f5f7fa;"
    "--broken:#b3261e;--fixed:#1b6e3c;--link:#005a9c}\n"
    "@media screen and (prefers-color-scheme:dark){:root{--ink:#eceff3;--soft:#a9b0b9;--line:#343941;"
    "--back:#14161a;--box:#1e2127;--broken:#ff8a80;--fixed:#7fd7a0;--link:#7cc0ff}}\n"
    "body{font:16px/1.5 Arial,Helvetica,'Liberation Sans',sans-serif;max-width:1240px;margin:0 auto;"
    "padding:16px;color:var(--ink);background:var(--back)}\n"
    "h1{font-size:28px;line-height:1.2;margin:8px 0}h2{font-size:20px;margin:28px 0 6px}"
    "h3{font-size:16px;margin:8px 0 4px}p{margin:6px 0;max-width:44em}a{color:var(--link)}\n"
    "a:focus-visible,summary:focus-visible,pre:focus-visible{outline:3px solid var(--ink);"
    "outline-offset:2px}\n"
    ".about,.note{color:var(--soft)}.ask{border-left:6px solid var(--link);padding:4px 14px}"
    ".ask h2{margin-top:0}th .about{font-weight:normal}\n"
    ".skip{position:absolute;left:-999em}.skip:focus{position:static}\n"
    ".play{border-left:6px solid;padding:4px 14px;margin:6px 0}.play ul{margin:4px "
    "0;padding-left:1.3em}.play.broken{border-color:var(--broken)}"
    ".play.fixed{border-color:var(--fixed)}.play h3{font-size:18px}\n"
    ".pair{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));gap:16px}\n"
    "pre{background:var(--box);border:1px solid var(--line);border-radius:6px;padding:10px 12px;margin:4px 0;"
    "overflow-x:auto;font-size:14px;line-height:1.4}code{font-size:15px}pre code{font-size:inherit}"
    "pre b{user-select:none}mark{background:none;color:inherit;font-weight:bold;text-decoration:underline}\n"
    "figure{margin:12px 0;overflow-x:auto}figure "
    "svg{max-width:100%;min-width:800px;height:auto;display:block}\n"
    "summary{cursor:pointer;padding:4px 0}.wide{overflow-x:auto}table{border-collapse:collapse;"
    "font-size:14px}caption{text-align:left;color:var(--soft);padding:4px 0}"
    "td,th{padding:3px 10px;text-align:left;vertical-align:top;border-bottom:1px solid var(--line)}"
    ".number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}"
    "tr:target{outline:3px solid var(--ink)}\n"
    ".good{color:var(--fixed);font-weight:bold}.wrong{color:var(--broken);font-weight:bold}\n"
    "@media(max-width:760px){.pair{grid-template-columns:minmax(0,1fr)}}\n"
    "@page{size:A4;margin:12mm 10mm}\n"
    "@media print{:root{color-scheme:light}body{font-size:11px;padding:0;max-width:none}"
    "h1{font-size:20px}h2{font-size:15px;margin-top:16px}h3,.play "
    "h3{font-size:12px}p{max-width:none}h1,h2,h3{break-after:avoid}"
    "a{color:inherit;text-decoration:none}.skip{display:none}.pair{display:block}"
    "pre{white-space:pre-wrap;font-size:10px;break-inside:avoid}figure,.play,tr{break-inside:avoid}"
    "figure{overflow:visible}figure svg{min-width:0;max-height:262mm;margin:0 "
    "auto}table{font-size:9px}details[open]{break-before:page}"
    "thead{display:table-header-group}.ask details{break-before:auto!important}}\n";

void document_begin(FILE *out, const char *title) {
    fputs("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
          "<meta http-equiv=\"Content-Security-Policy\" "
          "content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
          out);
    svg_escape(out, title);
    fprintf(out, "</title>\n<style>\n%s</style></head><body>\n", style);
}

void document_end(FILE *out) {
    fputs("</body></html>\n", out);
}

/* The lines of a paragraph are one text. */
static void write_line(FILE *out, const char *line, size_t length) {
    char part[256];
    while (length > 0) { /* not within a character */
        size_t take = length < sizeof part ? length : sizeof part - 1;
        while (take < length && take > 1 && ((unsigned char)line[take] & 0xc0) == 0x80)
            take--;
        snprintf(part, sizeof part, "%.*s", (int)take, line);
        svg_escape(out, part);
        line += take;
        length -= take;
    }
}

void document_paragraphs(FILE *out, const char *text) {
    bool open = false;
    while (*text != '\0') {
        size_t length = strcspn(text, "\n");
        bool blank = strspn(text, " \t\r") >= length;
        if (blank && open)
            fputs("</p>\n", out);
        else if (!blank)
            fputs(open ? "\n" : "<p>", out);
        if (!blank)
            write_line(out, text, length);
        open = !blank;
        text += length + (text[length] == '\n');
    }
    fputs(open ? "</p>\n" : "", out);
}

static bool is_listed(const int *lines, int number) {
    while (*lines != 0 && *lines != number)
        lines++;
    return *lines != 0;
}

/* A tab is four blanks. */
static void write_code_line(FILE *out, const char *line, size_t length) {
    for (size_t from = 0; from < length;) {
        size_t part = strcspn(line + from, "\n\t");
        write_line(out, line + from, part);
        from += part;
        if (from < length) {
            fputs("    ", out);
            from++;
        }
    }
}

void document_code(FILE *out, const char *text, const int *lines, const char *says) {
    fputs("<pre tabindex=\"0\"><code>", out);
    for (int number = 1; *text != '\0'; number++) {
        size_t length = strcspn(text, "\n");
        bool listed = is_listed(lines, number);
        fputs(listed ? "<mark>" : "", out);
        write_code_line(out, text, length);
        if (listed)
            fprintf(out, "</mark> <b>\xe2\x86\x90 %s</b>", says);
        text += length;
        if (*text != '\0')
            fputc(*text++, out);
    }
    fputs("</code></pre>\n", out);
}

void document_element(FILE *out, const char *name, const char *attributes, const char *text) {
    fprintf(out, "<%s%s%s>", name, *attributes != '\0' ? " " : "", attributes);
    svg_escape(out, text);
    fprintf(out, "</%s>", name);
}

const char *document_outcome(const char *outcome, bool *good) {
    static const struct {
        const char *outcome, *means;
        bool good;
    } all[] = {
        {"reproduced", "The fault shows", true},
        {"held", "The fix holds", true},
        {"not-reproduced", "The fault did not show this time", false},
        {"violated", "The fix did not hold", false},
        {"setup-failed", "The set-up failed, so this play shows nothing", false},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (strcmp(all[i].outcome, outcome) == 0) {
            *good = all[i].good;
            return all[i].means;
        }
    }
    *good = false;
    return "An outcome that is not known here";
}

/* ---- the index ---- */

static void write_play(FILE *out, const char *outcome, const char *sentence) {
    bool good = false;
    fputs("<td>", out);
    if (!outcome) {
        fputs("not played</td>", out);
        return;
    }
    document_outcome(outcome, &good);
    document_element(out, "span", good ? "class=\"good\"" : "class=\"wrong\"", outcome);
    if (sentence) {
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
    svg_escape(out, row->title ? row->title : "");
    fputs("</span></th>", out);
    write_play(out, row->broken_outcome, row->broken_sentence);
    if (row->broken_outcome && strcmp(row->broken_outcome, "setup-failed") != 0)
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
