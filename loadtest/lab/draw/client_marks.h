/* Marks in the lanes of clients: waits, leases and beliefs, writes, pauses, what clients hear and note. */
#ifndef LOADTEST_LAB_DRAW_CLIENT_MARKS_H
#define LOADTEST_LAB_DRAW_CLIENT_MARKS_H

#include "loadtest/lab/draw/canvas.h"

/* acquire.sent: a dotted line until the answer. */
void client_marks_wait(struct canvas *canvas, const struct event *sent);

/* acquire.ok: the lease, the belief in it, and what goes on after it; acquire.unknown: a lease that fades. */
void client_marks_hold(struct canvas *canvas, const struct hold *hold);

/* holder.paused, in the lanes of the target, which may be a server; within the mark of the fault. */
void client_marks_pause(struct canvas *canvas, const struct event *paused);

/* What happens at one moment: writes, renewals, notes, and the ends of waits and grants. */
void client_marks_moment(struct canvas *canvas, const struct event *event);

#endif
