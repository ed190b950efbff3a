/* What all views share: the catalogue, the newest run, what is said of it, and what to do when the server is gone. */

import {beginRun, getLab} from "./api.mjs";
import {h, say, show} from "./dom.mjs";
import {watchRun} from "./source.mjs";

const RETRY_MS = 1000, CHECK_MS = 5000;

const states = {
    idle: "Nothing is running.",
    starting: "Starting real servers …",
    playing: "It is running.",
    ended: "The run has ended.",
    lost: "The lab does not answer. The page goes on by itself when it is back.",
};

export class App {
    /* `elements`: status and problem; `go(hash)` changes the view. */
    constructor(elements, go) {
        this.elements = elements;
        this.go = go;
        this.lab = null;
        this.run = null; /* the newest */
        this.stream = null;
        this.view = null;
        this.recordings = {}; /* of scenarios: name, play */
        this.setState("idle");
        setInterval(() => this.check(), CHECK_MS);
    }

    get playing() {
        return ["starting", "playing", "lost"].includes(this.state);
    }

    setState(state) {
        this.state = state;
        this.elements.status.dataset.state = state;
        say(this.elements.status, states[state]);
        if (this.view && this.view.busy)
            this.view.busy(this.playing);
    }

    /* What failed, with a way out; null: nothing. */
    problem(error) {
        const box = this.elements.problem;
        show(box, error !== null);
        if (error === null)
            return;
        const busy = error.status === 409 && this.lab && !this.playing;
        box.replaceChildren(h("span", {}, error.message), " ",
                            busy ? h("button", {type: "button", onclick: () => this.refresh()}, "Watch it") : "",
                            h("button", {type: "button", onclick: () => this.problem(null)}, "Close"));
        if (error.status === 0)
            this.wait();
    }

    kept(name) {
        return this.recordings[name] || {};
    }

    keep(name, play, recording) {
        this.recordings[name] = {...this.kept(name), [play]: recording};
    }

    /* ---- runs ---- */

    async begin(order) {
        this.problem(null);
        const before = this.state;
        this.setState("starting");
        try {
            this.watch(await beginRun(order));
        } catch (error) {
            this.setState(before === "starting" ? "idle" : before);
            this.problem(error);
        }
    }

    /* Hears of a run from its first event on. */
    watch(run) {
        if (this.stream)
            this.stream.close();
        this.run = run;
        this.setState(run.state === "ended" ? "ended" : "starting");
        this.stream = watchRun(run.run, {
            events: () => this.onEvents(),
            lost: () => this.setState("lost"),
            back: () => this.setState(this.recording.play ? "playing" : "starting"),
            ended: () => this.onEnd(),
            gone: () => this.wait(),
            wrong: (error) => this.problem(error),
        });
        this.showRun();
    }

    get recording() {
        return this.stream.recording;
    }

    showRun() {
        if (this.view && this.run && this.stream && this.view.wants(this.run))
            this.view.begun(this.run, this.recording);
    }

    onEvents() {
        if (this.state !== "playing" && this.run.state !== "ended")
            this.setState("playing");
        if (this.view && this.view.wants(this.run))
            this.view.grown();
    }

    onEnd() {
        this.setState("ended");
        this.run = {...this.run, state: "ended"};
        if (this.view && this.view.wants(this.run))
            this.view.ended(this.recording);
    }

    /* Another view. */
    show(view) {
        if (this.view)
            this.view.close();
        this.view = view;
        this.problem(null);
        this.showRun();
        if (this.run && this.run.state === "ended" && this.stream && view.wants(this.run))
            view.ended(this.recording);
    }

    /* ---- the server ---- */

    /* It is gone: asks until it is back. */
    wait() {
        this.setState("lost");
        if (!this.waiting)
            this.waiting = setTimeout(() => this.refresh(), RETRY_MS);
    }

    /* While nothing runs there is no stream that would break when the server ends. */
    async check() {
        if (this.playing || document.hidden || !this.lab)
            return;
        try {
            await getLab();
        } catch (error) {
            if (error.status === 0)
                this.wait();
        }
    }

    /* Reads the catalogue anew, and picks up the newest run. */
    async refresh() {
        clearTimeout(this.waiting);
        this.waiting = null;
        try {
            this.lab = await getLab();
        } catch (error) {
            if (error.status === 0)
                this.wait();
            else
                this.problem(error);
            return;
        }
        this.problem(null);
        const {run} = this.lab;
        if (!run) {
            this.loseRun();
        } else if (!this.run || this.run.run !== run.run || this.state === "lost") {
            this.watch(run);
            this.go(run);
        }
    }

    /* The lab has started anew, and its runs are gone; what came of them stays on the page. */
    loseRun() {
        if (this.stream)
            this.stream.close();
        if (this.run && this.run.state !== "ended" && this.view && this.view.wants(this.run)) {
            this.view.ended(this.recording);
            this.problem(new Error("The lab has started anew: this run is over, and has no verdict."));
        }
        this.run = null;
        this.setState("idle");
    }
}
