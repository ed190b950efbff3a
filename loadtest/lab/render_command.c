/* seckill-lab render: draws recorded events. */
#include <errno.h>
#include <string.h>

#include "base/flags.h"
#include "loadtest/lab/commands.h"
#include "loadtest/lab/draw/describe.h"
#include "loadtest/lab/draw/timeline.h"
#include "loadtest/lab/lesson_report.h"

static const char help[] =
    "seckill-lab render: draws recorded events.\n"
    "\n"
    "usage: seckill-lab render EVENTS [EVENTS] [option]...\n"
    "example: seckill-lab render events.broken.jsonl events.fixed.jsonl --svg timeline.svg\n"
    "\n"
    "EVENTS is a file that a play has left, one JSON object a line. Two plays of one scenario, the broken "
    "and\n"
    "the fixed one, are drawn on one time axis. The same events give the same bytes.\n"
    "\n"
    "  --svg FILE    the picture: what each client believed, what the stores said, what reached the stock\n"
    "  --html FILE   the report: verdict, evidence, picture and events, in one file that needs no other\n"
    "  --trace FILE  a trace that opens in Perfetto (https://ui.perfetto.dev)\n"
    "  --table FILE  the events as plain text; this is what is written if no option is given\n"
    "  --help, --version\n"
    "\n"
    "FILE may be -: standard output.\n"
    "\n"
    "exit status: 0, 2 bad usage or no file of events, 3 a file could not be written\n";

enum { EXIT_USAGE = 2, EXIT_FAILED = 3 };

struct options {
    struct flag_texts events;
    const char *svg, *html, *trace, *table;
};

#define VALUE(member) offsetof(struct options, member)
static const struct flag flags[] = {
    {"EVENTS", flag_read_texts, VALUE(events), 0, 0, FLAG_TEXTS_MUST},
    {"--svg", flag_read_text, VALUE(svg), 0, 0, "the name of a file, or -"},
    {"--html", flag_read_text, VALUE(html), 0, 0, "the name of a file, or -"},
    {"--trace", flag_read_text, VALUE(trace), 0, 0, "the name of a file, or -"},
    {"--table", flag_read_text, VALUE(table), 0, 0, "the name of a file, or -"},
};

static int render_write(const char *file, bool (*draw)(FILE *, const struct judged_play[], int),
                        const struct judged_play plays[], int count) {
    if (!file)
        return 0;
    FILE *out = strcmp(file, "-") == 0 ? stdout : fopen(file, "we");
    if (!out)
        return command_fail(EXIT_FAILED, file, strerror(errno));
    bool good = draw(out, plays, count);
    good = (out == stdout ? fflush(out) : fclose(out)) == 0 && good;
    return good ? 0 : command_fail(EXIT_FAILED, file, "could not be written");
}

int render_command(char *const *argv) {
    struct options o = {.svg = NULL};
    struct judged_play plays[LESSON_PLAYS];
    char error[300];
    int code = 0, count = 0;
    enum flags_status status =
        flags_read(flags, sizeof flags / sizeof flags[0], argv, &o, error, sizeof error);
    if (status == FLAGS_RUN && (o.events.count < 1 || o.events.count > LESSON_PLAYS)) {
        snprintf(error, sizeof error, "give one or two files of events");
        status = FLAGS_WRONG;
    }
    if (status != FLAGS_RUN)
        return flags_answer(status, "seckill-lab", help, error);
    if (!o.svg && !o.html && !o.trace && !o.table)
        o.table = "-";
    while (code == 0 && count < (int)o.events.count) {
        const char *file = o.events.texts[count];
        if (judged_play_read_file(file, &plays[count], error, sizeof error))
            count++;
        else
            code = command_fail(EXIT_USAGE, file, error);
    }
    if (code == 0 && !lesson_order(plays, count))
        code = command_fail(EXIT_USAGE, o.events.texts[1], "not the other play of the same scenario");
    if (code == 0)
        code = render_write(o.svg, timeline_draw, plays, count);
    if (code == 0)
        code = render_write(o.html, lesson_draw, plays, count);
    if (code == 0)
        code = render_write(o.trace, trace_draw, plays, count);
    if (code == 0)
        code = render_write(o.table, table_draw, plays, count);
    while (count > 0)
        judged_play_free(&plays[--count]);
    return code;
}
