#include "loadtest/lab/draw/table.h"

#include <inttypes.h>

#include "loadtest/lab/draw/describe.h"

void table_draw(FILE *out, const struct judged_play plays[], int count) {
    for (int i = 0; i < count; i++) {
        const struct event_play *play = &plays[i].log.play;
        fprintf(out, "%s%s, %s, seed %" PRId64 "\n%5s %12s  %-14s %s\n", i > 0 ? "\n" : "", play->scenario,
                play->play, play->seed, "n", "ms", "who", "what");
        for (size_t k = 0; k < plays[i].log.count; k++) {
            const struct event *event = &plays[i].log.events[k];
            char what[DESCRIBE_SIZE];
            describe_event(event, what);
            fprintf(out, "%5" PRIu64 " %12.3f  %-14s %s\n", event->n, (double)event->t_ns / 1e6, event->who,
                    what);
        }
        fprintf(out, "%5s %12s  %-14s %s: %s\n", "", "", "verdict", plays[i].verdict.outcome,
                plays[i].verdict.sentence);
    }
}
