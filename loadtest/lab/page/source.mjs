/* A live run: its events come over Server-Sent Events into a recording. When the connection breaks, the browser
 * connects again by itself, and asks for what came after the last event that it has. */

import {Recording} from "./reducer.mjs";

/* `on` has: events() something came; lost() the server does not answer; back() it does again; ended() the run
 * is over, and all of it is here; gone() the server does not know the run any more;
 * wrong(error) what came is no event. */
export function watchRun(run, on) {
    const recording = new Recording();
    const stream = new EventSource(`/api/runs/${run}/events`);
    let lost = false;
    stream.onmessage = (message) => {
        /* The browser asks again from the last id: what is here already is not taken twice. */
        if (Number(message.lastEventId) < recording.lines.length)
            return;
        try {
            recording.add(message.data);
        } catch (error) {
            stream.close();
            on.wrong(error);
            return;
        }
        on.events();
    };
    stream.onopen = () => {
        if (lost)
            on.back();
        lost = false;
    };
    stream.onerror = () => {
        if (stream.readyState === EventSource.CLOSED) {
            on.gone();
        } else if (!lost) {
            lost = true;
            on.lost();
        }
    };
    stream.addEventListener("end", () => {
        stream.close();
        on.ended();
    });
    return {recording, close: () => stream.close()};
}
