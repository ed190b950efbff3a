#include "loadtest/lab/play.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/servers/local_servers.h"

enum { PATH_SIZE = 512 };

static bool play_fail(char *error, size_t error_size, const char *what) {
    snprintf(error, error_size, "%s: %s", what, strerror(errno));
    return false;
}

/* Finds the directory of this program. */
static bool find_programs(char path[PATH_SIZE]) {
    ssize_t length = readlink("/proc/self/exe", path, PATH_SIZE - 1);
    if (length <= 0)
        return false;
    path[length] = '\0';
    *strrchr(path, '/') = '\0'; /* the path is absolute */
    return true;
}

/* Writes the verdict on what was recorded; if the set-up failed, the verdict says why. */
static bool play_write_verdict(struct stage *stage, const char *events, const char *failure, char *error,
                               size_t error_size) {
    struct judged_play played;
    struct event verdict = {.kind = EVENT_VERDICT, .outcome = "setup-failed", .sentence = failure};
    if (!judged_play_read_file(events, &played, error, error_size))
        return false;
    if (!failure)
        verdict = played.verdict;
    verdict.who = "lab";
    verdict.t_ns = 0;
    bool good = stage_tell_verdict(stage, &verdict);
    judged_play_free(&played);
    return good || play_fail(error, error_size, events);
}

/* Plays, and writes the verdict. The directory of the stage exists and is empty. */
static bool play_on_stage(const struct play_plan *plan, const struct stage_options *options, char *error,
                          size_t error_size) {
    struct stage *stage = stage_open(options);
    if (!stage) {
        snprintf(error, error_size, "no memory");
        return false;
    }
    plan->scenario->play(stage, plan->broken && !plan->fixed_way);
    const char *failure = stage_end(stage);
    if (failure)
        stage_copy_logs(stage, plan->logs);
    bool good = play_write_verdict(stage, plan->events, failure, error, error_size);
    stage_free(stage);
    return good;
}

bool play_run(const struct play_plan *plan, struct judged_play *played, char *error, size_t error_size) {
    const struct scenario *scenario = plan->scenario;
    const char *play = plan->broken ? "broken" : "fixed";
    char programs[PATH_SIZE], directory[300];
    if (!plan->programs && !find_programs(programs))
        return play_fail(error, error_size, "/proc/self/exe");
    FILE *out = fopen(plan->events, "we");
    if (!out)
        return play_fail(error, error_size, plan->events);
    snprintf(directory, sizeof directory, "%.200s/%.40s-%.8s", plan->work, scenario->name, play);
    bool good = false;
    if (mkdir(directory, 0700) == 0) {
        const struct stage_options options = {.scenario = scenario->name,
                                              .play = play,
                                              .seed = plan->seed,
                                              .ttl_ms = scenario->ttl_ms,
                                              .directory = directory,
                                              .programs = plan->programs ? plan->programs : programs,
                                              .events = out,
                                              .ctx = plan->ctx};
        good = play_on_stage(plan, &options, error, error_size);
        directory_remove(directory);
    } else {
        play_fail(error, error_size, directory);
    }
    fclose(out);
    return good && judged_play_read_file(plan->events, played, error, error_size);
}
