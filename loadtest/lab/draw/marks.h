/* Marks of a play: waits, leases and beliefs, writes and pauses in the lanes of clients, faults, owners and
 * roles in the lanes of lock servers, and what is left in the lanes of items. */
#ifndef LOADTEST_LAB_DRAW_MARKS_H
#define LOADTEST_LAB_DRAW_MARKS_H

#include "loadtest/lab/draw/canvas.h"

/* Draws the marks of all events that are shown, in the order in which they may lie on each other, each in a
 * group that can be linked. */
void marks_draw(struct canvas *canvas);

/* ---- in the lanes of clients ---- */

/* acquire.sent: a dotted line until the answer. */
void client_marks_wait(struct canvas *canvas, const struct event *sent);

/* acquire.ok: the lease, the belief in it, and what goes on after it; acquire.unknown: a lease that fades. */
void client_marks_hold(struct canvas *canvas, const struct lock_hold *hold);

/* What happens at one moment: writes, renewals, notes, and the ends of waits and grants. */
void client_marks_moment(struct canvas *canvas, const struct event *event);

/* ---- in the lane of faults ---- */

/* How many rows the faults need, so that none lies on another: 1 to FAULT_MARKS_ROWS. */
enum { FAULT_MARKS_ROWS = 5 };
int fault_marks_rows(const struct canvas *canvas);

/* fault.start and holder.paused: a bar until the end. */
void fault_marks_draw(struct canvas *canvas);

#endif
