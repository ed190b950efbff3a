/* The player: a place in a recording, and what moves it. Live runs and recordings are the same to it. */

import {describeWhole} from "./describe.mjs";
import {h, say} from "./dom.mjs";

const SPEEDS = [["⅛ speed", 0.125], ["¼ speed", 0.25], ["½ speed", 0.5], ["1 × speed", 1], ["2 × speed", 2], ["4 × speed", 4]];
const MS = 1e6;

export class Player {
    /* `onMove` is called when the place has changed. */
    constructor(onMove) {
        this.onMove = onMove;
        this.recording = null;
        this.count = 0; /* events that have happened */
        this.t = 0;     /* ns */
        this.follows = true; /* the newest event of a live run */
        this.growing = false;
        this.playing = false;
        this.speed = 1;
        this.root = this.build();
    }

    build() {
        this.back = h("button", {id: "player-back", type: "button", onclick: () => this.step(-1)}, "◀ Step back");
        this.play = h("button", {id: "player-play", type: "button", onclick: () => this.toggle()}, "▶ Play");
        this.forward = h("button", {id: "player-forward", type: "button", onclick: () => this.step(1)}, "Step ▶");
        this.newest = h("button", {id: "player-live", type: "button", onclick: () => this.follow()}, "Newest");
        this.seekBar = h("input", {id: "player-seek", type: "range", min: 0, max: 1, value: 0, step: 1,
                                   "aria-label": "Time in the run, in milliseconds", oninput: () => this.seek(this.seekBar.value * MS)});
        this.speeds = h("select", {id: "player-speed", "aria-label": "Speed", onchange: () => { this.speed = Number(this.speeds.value); }},
                        ...SPEEDS.map(([name, value]) => h("option", {value, selected: value === 1}, name)));
        this.time = h("output", {id: "player-time", for: "player-seek"}, "0 ms");
        this.what = h("p", {id: "step"}, "Nothing has happened yet.");
        return h("section", {id: "player", "aria-label": "Player", "data-t": 0, "data-n": 0, "data-live": "true",
                             onkeydown: (event) => this.onKey(event)},
                 h("div", {class: "player-row"}, this.back, this.play, this.forward, this.newest, this.speeds, this.time),
                 this.seekBar, this.what);
    }

    onKey(event) {
        const own = event.target === this.seekBar || event.target === this.speeds;
        if (event.altKey || event.ctrlKey || event.metaKey || event.target === this.speeds)
            return;
        if (event.key === "ArrowLeft") this.step(-1);
        else if (event.key === "ArrowRight") this.step(1);
        else if (event.key === "Home") this.seek(0);
        else if (event.key === "End") this.follow();
        else if (event.key === " " && own) this.toggle(); /* a button has its own use for it */
        else return;
        event.preventDefault();
    }

    /* Another recording; `growing`: it is live. */
    load(recording, growing) {
        this.recording = recording;
        this.growing = growing;
        this.playing = false;
        this.arrived = performance.now();
        this.follow();
        if (growing)
            this.tick();
    }

    /* Something came. */
    grown() {
        this.arrived = performance.now();
        if (this.follows)
            this.follow();
        else
            this.moved();
    }

    ended() {
        this.growing = false;
        if (this.follows)
            this.follow();
        this.moved();
    }

    /* The last moment that is known: while a run goes on, time passes also when nothing happens. */
    get end() {
        if (!this.recording)
            return 0;
        const since = this.growing && this.recording.events.length > 0 ? (performance.now() - this.arrived) * MS : 0;
        return this.recording.end + since;
    }

    /* A deadline passes without an event. */
    tick() {
        if (!this.growing)
            return;
        if (this.follows)
            this.follow();
        clearTimeout(this.timer);
        this.timer = setTimeout(() => this.tick(), 100);
    }

    follow() {
        if (!this.recording)
            return;
        this.follows = true;
        this.playing = false;
        this.count = this.recording.events.length;
        this.t = this.end;
        this.moved();
    }

    step(by) {
        if (!this.recording)
            return;
        this.stay();
        this.count = Math.min(Math.max(this.count + by, 0), this.recording.events.length);
        this.t = this.count > 0 ? this.recording.times[this.count - 1] : 0;
        this.moved();
    }

    seek(t) {
        if (!this.recording)
            return;
        this.stay();
        this.t = Math.min(Math.max(t, 0), this.end);
        this.count = this.recording.countAt(this.t);
        this.moved();
    }

    /* To the event of this number. */
    seekEvent(n) {
        this.count = n - 1;
        this.step(1);
    }

    stay() {
        this.follows = false;
        this.playing = false;
    }

    toggle() {
        if (!this.recording)
            return;
        if (this.playing || (this.follows && this.growing)) {
            this.stay();
            this.moved();
            return;
        }
        if (this.t >= this.end || this.follows)
            this.seek(0);
        this.follows = false;
        this.playing = true;
        this.last = performance.now();
        requestAnimationFrame((now) => this.advance(now));
        this.moved();
    }

    advance(now) {
        if (!this.playing)
            return;
        this.t += Math.max(0, now - this.last) * MS * this.speed;
        this.last = now;
        this.count = this.recording.countAt(this.t);
        if (this.t >= this.end) {
            this.t = this.end;
            this.playing = false;
        }
        this.moved();
        requestAnimationFrame((next) => this.advance(next));
    }

    moved() {
        const live = this.growing && this.follows;
        const last = this.count > 0 ? this.recording.events[this.count - 1] : null;
        this.root.dataset.t = Math.round(this.t / MS);
        this.root.dataset.n = last ? last.n : 0;
        this.root.dataset.live = String(live);
        this.seekBar.max = Math.max(1, Math.ceil(this.end / MS));
        this.seekBar.value = this.t / MS;
        this.seekBar.setAttribute("aria-valuetext", `${Math.round(this.t / MS)} milliseconds`);
        say(this.time, `${Math.round(this.t / MS).toLocaleString("en-US")} ms`);
        say(this.what, last ? `${last.n}. ${describeWhole(last)}` : "Nothing has happened yet.");
        say(this.play, this.playing || live ? "❚❚ Pause" : "▶ Play");
        this.back.disabled = this.count === 0;
        this.forward.disabled = this.count >= (this.recording ? this.recording.events.length : 0);
        this.newest.disabled = live || !this.growing;
        this.onMove();
    }
}
