#include "loadtest/lab/play.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/servers/directory.h"
#include "loadtest/lab/judge/judge.h"

static bool fail(char *error, size_t error_size, const char *what) {
    snprintf(error, error_size, "%s: %s", what, strerror(errno));
    return false;
}

/* Judges what was recorded so far. */
static bool judge(const char *events, struct judged_play *played, char *error, size_t error_size) {
    FILE *in = fopen(events, "re");
    if (in == NULL)
        return fail(error, error_size, events);
    bool good = judged_play_read(in, played, error, error_size);
    fclose(in);
    return good;
}

/* The verdict on what was recorded; on a play whose set-up has failed, why. */
static bool tell_verdict(struct stage *stage, const char *events, const char *failure, char *error,
                         size_t error_size) {
    struct judged_play played;
    struct event verdict = {.kind = EVENT_VERDICT, .outcome = "setup-failed", .sentence = failure};
    if (!judge(events, &played, error, error_size))
        return false;
    if (failure == NULL)
        verdict = played.verdict;
    verdict.who = "lab";
    verdict.t_ns = 0;
    bool good = stage_tell_verdict(stage, &verdict);
    judged_play_free(&played);
    return good || fail(error, error_size, events);
}

bool play_run(const struct play_plan *plan, struct judged_play *played, char *error, size_t error_size) {
    const struct scenario *scenario = plan->scenario;
    const char *play = plan->broken ? "broken" : "fixed";
    char directory[300];
    snprintf(directory, sizeof directory, "%.200s/%.40s-%.8s", plan->work, scenario->name, play);
    FILE *out = fopen(plan->events, "we");
    if (out == NULL || (mkdir(directory, 0700) != 0)) {
        fail(error, error_size, out == NULL ? plan->events : directory);
        if (out != NULL)
            fclose(out);
        return false;
    }
    const struct stage_options options = {.scenario = scenario->name,
                                          .play = play,
                                          .seed = plan->seed,
                                          .ttl_ms = scenario->ttl_ms,
                                          .directory = directory,
                                          .programs = plan->programs,
                                          .events = out,
                                          .ctx = plan->ctx};
    struct stage *stage = stage_open(&options);
    bool good = stage != NULL;
    if (good) {
        scenario->play(stage, plan->broken && !plan->fixed_way);
        const char *failure = stage_end(stage);
        if (failure != NULL)
            stage_copy_logs(stage, plan->logs);
        good = tell_verdict(stage, plan->events, failure, error, error_size);
        stage_free(stage);
    } else {
        snprintf(error, error_size, "no memory");
    }
    fclose(out);
    directory_remove(directory);
    return good && judge(plan->events, played, error, error_size);
}
