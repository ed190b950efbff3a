/* Marks in the lanes of lock servers: whom they name as owner, their role, their clock, when they are down;
 * and the arrows from releases to them. */
#ifndef LOADTEST_LAB_DRAW_SERVER_MARKS_H
#define LOADTEST_LAB_DRAW_SERVER_MARKS_H

#include "loadtest/lab/draw/canvas.h"

/* store.key, until the server says something else of this key. */
void server_marks_owner(struct canvas *canvas, const struct event *key);

/* server.down, until it is up; server.up, server.role, server.clock: a line, and what is new. */
void server_marks_news(struct canvas *canvas, const struct event *event);

/* release.sent: the end of a belief, with an arrow to what it did to the key. The arrow is a bold one if the
 * server had named another client as the owner. */
void server_marks_release(struct canvas *canvas, const struct event *sent);

#endif
