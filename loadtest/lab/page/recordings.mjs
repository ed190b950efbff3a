/* Recordings: a file of events, or the two of one scenario, dropped on the page or chosen. */

import {h, say, show} from "./dom.mjs";
import {readRecording} from "./reducer.mjs";
import {RunView} from "./run_view.mjs";

export class RecordingsView {
    constructor(app) {
        this.app = app;
        this.view = new RunView((error) => app.problem(error));
        this.names = h("p", {class: "soft"});
        this.root = h("div", {}, h("h1", {}, "Recordings"),
                      h("p", {class: "lead"}, "Each run is a file of events: events.broken.jsonl and events.fixed.jsonl, in the directory that seckill-lab run names. Play it again, " +
                        "step by step; nothing is sent anywhere but to the lab itself, and only if you save a report."),
                      h("div", {id: "drop", class: "card drop"}, h("label", {for: "file"}, "Drop one file or two here, or choose them: "),
                        h("input", {id: "file", type: "file", multiple: true, accept: ".jsonl", onchange: (event) => this.open(event.target.files)})),
                      this.names, this.view.root);
    }

    /* Files, as the browser gives them. */
    async open(files) {
        this.app.problem(null);
        if (files.length > 2) {
            this.app.problem(new Error(`These are ${files.length} files. Open one, or the broken and the fixed play of one scenario.`));
            return;
        }
        const read = [];
        for (const file of files) {
            try {
                read.push(readRecording(await file.text()));
            } catch (error) {
                this.app.problem(new Error(`${file.name}, ${error.message}`));
                return;
            }
        }
        if (read.length === 2 && (read[0].play.scenario !== read[1].play.scenario || read[0].play.play === read[1].play.play)) {
            this.app.problem(new Error("These two are not the broken and the fixed play of one scenario."));
            return;
        }
        if (read.length > 0)
            this.show(read, [...files].map((file) => file.name));
    }

    show(read, names) {
        this.view.forget();
        for (const recording of read.sort((a) => (a.play.play === "broken" ? -1 : 1)))
            this.view.load(recording, recording.play.play, false);
        this.view.ended();
        say(this.names, names.join(", "));
        show(this.names, true);
    }

    wants() {
        return false;
    }

    close() {
        this.view.close();
    }
}
