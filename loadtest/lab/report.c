#include "loadtest/lab/report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "loadtest/lab/draw/index.h"
#include "loadtest/lab/draw/timeline.h"
#include "loadtest/lab/draw/trace.h"

/* ---- files ---- */

void report_path(char path[REPORT_PATH_SIZE], const char *directory, const char *name, const char *file) {
    snprintf(path, REPORT_PATH_SIZE, "%s/%s%s%s", directory, name, *name != '\0' ? "/" : "", file);
}

const char *report_events_file(bool broken) {
    return broken ? "events.broken.jsonl" : "events.fixed.jsonl";
}

bool report_make_directory(const char *path) {
    return mkdir(path, 0777) == 0 || errno == EEXIST;
}

/* `draw` makes a file of the two plays. */
static bool write_file(const char *directory, const struct scenario *scenario, const char *file,
                       bool (*draw)(FILE *, const struct judged_play[], int),
                       const struct judged_play plays[]) {
    char path[REPORT_PATH_SIZE];
    report_path(path, directory, scenario->name, file);
    FILE *out = fopen(path, "we");
    if (out == NULL)
        return false;
    bool good =
        draw != NULL ? draw(out, plays, REPORT_PLAYS) : html_draw(out, plays, REPORT_PLAYS, &scenario->text);
    return fclose(out) == 0 && good;
}

bool report_write(const char *directory, const struct scenario *scenario,
                  const struct judged_play plays[REPORT_PLAYS]) {
    return write_file(directory, scenario, "timeline.svg", timeline_draw, plays) &&
           write_file(directory, scenario, "trace.json", trace_draw, plays) &&
           write_file(directory, scenario, "report.html", NULL, plays);
}

static bool is_broken(const struct judged_play *play) {
    return strcmp(play->log.play.play, "broken") == 0;
}

bool report_order(struct judged_play plays[], int count) {
    if (count < REPORT_PLAYS)
        return true;
    if (is_broken(&plays[0]) == is_broken(&plays[1]) ||
        strcmp(plays[0].log.play.scenario, plays[1].log.play.scenario) != 0)
        return false;
    if (is_broken(&plays[1])) {
        struct judged_play first = plays[0];
        plays[0] = plays[1];
        plays[1] = first;
    }
    return true;
}

bool report_draw(FILE *out, const struct judged_play plays[], int count) {
    const struct scenario *scenario = scenario_find(plays[0].log.play.scenario);
    return html_draw(out, plays, count, scenario != NULL ? &scenario->text : NULL);
}

bool report_is_taught(const struct judged_play plays[REPORT_PLAYS]) {
    return strcmp(plays[0].verdict.outcome, "reproduced") == 0 &&
           strcmp(plays[1].verdict.outcome, "held") == 0;
}

/* ---- the index ---- */

/* False: there is no such play, or it did not come to its end. */
static bool read_play(const char *directory, const char *name, bool broken, struct judged_play *play) {
    char path[REPORT_PATH_SIZE], error[200];
    report_path(path, directory, name, report_events_file(broken));
    FILE *in = fopen(path, "re");
    if (in == NULL)
        return false;
    bool good = judged_play_read(in, play, error, sizeof error);
    fclose(in);
    if (good && play->verdict.n == 0) /* it was not recorded */
        judged_play_free(play);
    return good && play->verdict.n != 0;
}

static bool read_plays(const char *directory, const char *name, struct judged_play plays[REPORT_PLAYS]) {
    if (!read_play(directory, name, true, &plays[0]))
        return false;
    if (read_play(directory, name, false, &plays[1]))
        return true;
    judged_play_free(&plays[0]);
    return false;
}

static struct index_row make_row(const struct scenario *scenario,
                                 const struct judged_play plays[REPORT_PLAYS]) {
    const struct event *broken = &plays[0].verdict, *fixed = &plays[1].verdict;
    return (struct index_row){.name = scenario->name,
                              .title = scenario->text.title,
                              .seed = plays[0].log.play.seed,
                              .broken_outcome = broken->outcome,
                              .broken_sentence = broken->sentence,
                              .fixed_outcome = fixed->outcome,
                              .fixed_sentence = fixed->sentence,
                              .overlap_ms = broken->overlap_ms,
                              .oversold = broken->oversold,
                              .taught = report_is_taught(plays)};
}

bool report_write_index(const char *directory) {
    char path[REPORT_PATH_SIZE];
    int room = 1, count = 0;
    while (scenarios[room] != NULL) /* there is one */
        room++;
    struct judged_play(*plays)[REPORT_PLAYS] = calloc((size_t)room, sizeof *plays); /* own the rows' texts */
    struct index_row *rows = calloc((size_t)room, sizeof *rows);
    report_path(path, directory, "", "index.html");
    FILE *out = plays != NULL && rows != NULL ? fopen(path, "we") : NULL;
    bool good = out != NULL;
    for (int i = 0; i < room && good; i++) {
        if (read_plays(directory, scenarios[i]->name, plays[count])) {
            rows[count] = make_row(scenarios[i], plays[count]);
            count++;
        }
    }
    if (good) {
        index_draw(out, rows, count);
        good = fclose(out) == 0;
    }
    for (int i = 0; i < count * REPORT_PLAYS; i++)
        judged_play_free(&plays[i / REPORT_PLAYS][i % REPORT_PLAYS]);
    free(rows);
    free(plays);
    return good;
}
