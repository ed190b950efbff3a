#include "loadtest/lab/lesson_report.h"

#include <stdlib.h>
#include <string.h>

#include "loadtest/lab/draw/describe.h"
#include "loadtest/lab/draw/document.h"
#include "loadtest/lab/draw/timeline.h"

/* ---- the two plays ---- */

static bool is_broken(const struct judged_play *play) {
    return strcmp(play->log.play.play, "broken") == 0;
}

bool lesson_order(struct judged_play plays[], int count) {
    if (count < LESSON_PLAYS)
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

bool lesson_draw(FILE *out, const struct judged_play plays[], int count) {
    const struct scenario *scenario = scenario_find(plays[0].log.play.scenario);
    return html_draw(out, plays, count, scenario ? &scenario->text : NULL);
}

bool lesson_is_taught(const struct judged_play plays[LESSON_PLAYS]) {
    return strcmp(plays[0].verdict.outcome, "reproduced") == 0 &&
           strcmp(plays[1].verdict.outcome, "held") == 0;
}

/* ---- files ---- */

void lesson_path(char path[LESSON_PATH_SIZE], const char *directory, const char *name, const char *file) {
    snprintf(path, LESSON_PATH_SIZE, "%s/%s%s%s", directory, name, *name != '\0' ? "/" : "", file);
}

const char *lesson_events_file(bool broken) {
    return broken ? "events.broken.jsonl" : "events.fixed.jsonl";
}

/* Writes what `draw` makes of the two plays. */
static bool lesson_write_file(const char *directory, const struct scenario *scenario, const char *file,
                              bool (*draw)(FILE *, const struct judged_play[], int),
                              const struct judged_play plays[LESSON_PLAYS]) {
    char path[LESSON_PATH_SIZE];
    lesson_path(path, directory, scenario->name, file);
    FILE *out = fopen(path, "we");
    if (!out)
        return false;
    bool good = draw(out, plays, LESSON_PLAYS);
    return fclose(out) == 0 && good;
}

bool lesson_write(const char *directory, const struct scenario *scenario,
                  const struct judged_play plays[LESSON_PLAYS]) {
    return lesson_write_file(directory, scenario, "timeline.svg", timeline_draw, plays) &&
           lesson_write_file(directory, scenario, "trace.json", trace_draw, plays) &&
           lesson_write_file(directory, scenario, "report.html", lesson_draw, plays);
}

/* ---- the index ---- */

/* Returns false if a play is missing, or did not come to its end: its file has no verdict. */
static bool read_plays(const char *directory, const char *name, struct judged_play plays[LESSON_PLAYS]) {
    for (int i = 0; i < LESSON_PLAYS; i++) {
        char path[LESSON_PATH_SIZE], error[200];
        lesson_path(path, directory, name, lesson_events_file(i == 0));
        bool read = judged_play_read_file(path, &plays[i], error, sizeof error);
        if (read && plays[i].verdict.n != 0)
            continue;
        for (i += read; i > 0;)
            judged_play_free(&plays[--i]);
        return false;
    }
    return true;
}

static struct index_row make_row(const struct scenario *scenario,
                                 const struct judged_play plays[LESSON_PLAYS]) {
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
                              .taught = lesson_is_taught(plays)};
}

bool lesson_write_index(const char *directory) {
    char path[LESSON_PATH_SIZE];
    int room = 1 /* there is at least one scenario */, count = 0;
    while (scenarios[room])
        room++;
    /* The plays own the texts of the rows. */
    struct judged_play(*plays)[LESSON_PLAYS] = calloc((size_t)room, sizeof *plays);
    struct index_row *rows = calloc((size_t)room, sizeof *rows);
    lesson_path(path, directory, "", "index.html");
    FILE *out = plays && rows ? fopen(path, "we") : NULL;
    bool good = out;
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
    for (int i = 0; i < count * LESSON_PLAYS; i++)
        judged_play_free(&plays[i / LESSON_PLAYS][i % LESSON_PLAYS]);
    free(rows);
    free(plays);
    return good;
}
